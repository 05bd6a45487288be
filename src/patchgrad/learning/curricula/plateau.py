"""Has a stage stopped to learn? A stated test, where arXiv 2508.03501 says that Pass@1 "begins to plateau" (section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

ERRORS = 1.0
"""Standard errors by which the later iterations must be above the earlier ones to count as a rise."""


def rise(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """How much more of its tasks the second window solved, and the standard error of that (Welch): `rise([0, 1], [1, 1])` -> `(0.5, 0.5)`.

    Each number is the solved share of one task's attempts; tasks are drawn anew each time, so windows are compared unpaired.
    """
    error = math.sqrt(sum(variance(shares) / len(shares) if len(shares) > 1 else math.inf for shares in (before, after)))
    return fmean(after) - fmean(before), error


def plateaued(iterations: Sequence[Sequence[float]], window: int) -> bool:
    """Are the last `window` iterations no better than the `window` before, by `ERRORS` standard errors?

    Never before there are twice as many. Where nothing is learned any more, each test says so with a chance of 84 %; where a window gains
    two standard errors, with one of 16 %. An iteration without outcomes counts as none.
    """
    told = [shares for shares in iterations if shares]
    if window < 1 or len(told) < 2 * window:
        return False
    before, after = ([share for shares in part for share in shares] for part in (told[-2 * window : -window], told[-window:]))
    difference, error = rise(before, after)
    return difference <= ERRORS * error
