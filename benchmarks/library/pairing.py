"""Sides by turns: whatever else a machine does hits each of them, and a ratio is told with its spread over rounds.

found = by_turns({"ours": step, "theirs": other}, rounds=5)
over(found["theirs"], found["ours"])        {"median": 3.1, "least": 2.9, "most": 3.3}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")
Spread = dict[str, float]


def by_turns(
    sides: Mapping[str, Callable[[int], T]],
    rounds: int,
    seen: Callable[[int, str, T], None] = lambda number, name, found: None,
    warm_up: int = 0,
) -> dict[str, list[T]]:
    """What each side gives in each round, whose number it is told; rounds of the warm-up come first and are not kept."""
    found: dict[str, list[T]] = {name: [] for name in sides}
    for number in range(warm_up + rounds):
        for name, side in sides.items():
            given = side(number)
            seen(number, name, given)
            if number >= warm_up:
                found[name].append(given)
    return found


def same(work: Callable[..., T], *words: Any) -> Callable[[int], T]:
    """A side that does the same in every round."""
    return lambda _: work(*words)


def progress(about: str = "round") -> Callable[[int, str, Mapping[str, float]], None]:
    """A line for each side in each round: its figures, to three digits."""
    return lambda number, name, one: print(about, number, name, {key: float(f"{value:.3g}") for key, value in one.items()}, flush=True)


def over(theirs: Iterable[float], ours: Iterable[float]) -> Spread:
    """How many times as much theirs is as ours, round by round."""
    return spread([a / b for a, b in zip(theirs, ours, strict=True)])


def spread(values: Sequence[float]) -> Spread:
    """The median, the least and the most."""
    return {"median": median(values), "least": min(values), "most": max(values)}


def times(ratio: Mapping[str, float] | Sequence[float]) -> str:
    """`3.10 x (2.90 to 3.30)`; without the spread where it was seen once."""
    middle, low, high = ratio.values() if isinstance(ratio, Mapping) else ratio
    return f"{middle:.2f} x" + (f" ({low:.2f} to {high:.2f})" if low < high else "")


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each figure over rounds."""
    return {name: median(one[name] for one in rounds) for name in rounds[0]}


def joined(rounds: Iterable[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """The samples of each figure over rounds, end to end."""
    found: dict[str, list[float]] = {}
    for one in rounds:
        for name, samples in one.items():
            found.setdefault(name, []).extend(samples)
    return found


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of this process, and what the work returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def milliseconds(start: float) -> float:
    """By the clock since `time.perf_counter()` said `start`."""
    return 1000 * (time.perf_counter() - start)
