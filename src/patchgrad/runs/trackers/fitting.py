"""Text for a terminal of any width: lines are broken between what belongs together, and no number is cut."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgrad.runs.trackers.tally import Tally

BAR, LEAST = 28, 8
"""Columns of a bar, and below how many there is none."""

INDENT = "  "
"""Before a line that goes on with the one above."""


def shortened(text: str, width: int) -> str:
    """`shortened("the agent", 5)` is `the …`, and `shortened("of 4800 turns", 6)` is `of …`: no number is cut."""
    if len(text) <= width:
        return text
    kept = text[: max(0, width - 1)]
    return (re.sub(r"[\d.,]+$", "", kept) if text[len(kept)].isdigit() else kept) + "…"


def packed(start: str, parts: Iterable[str], width: int, between: str = ", ") -> list[str]:
    """`start` and the parts, as many on a line as it has room for, none of them broken; one that is wider than a line is shortened.

    `packed("  ", ["solved 50 %", "turns 7"], 20)` is `["  solved 50 %,", "  turns 7"]`.
    """
    found, line, empty = list[str](), start, True
    for part in parts:
        longer = line + ("" if empty else between) + part
        if not empty and len(longer) > width - len(between.rstrip()):
            found.append(line + between.rstrip())
            longer = INDENT + part
        line, empty = shortened(longer, width), False
    return [*found, line] if line.strip() else found


def blocks(rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """A table as lines whose columns stand below one another. Where it is wider it is several, each with the first column.

    The first column is shortened where one of the others has no room beside it; no other column is cut.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if width is not None:
        widths[0] = max(1, min(widths[0], width - 2 - max(widths[1:], default=0)))
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        taken = widths[0] + sum(widths[i] + 2 for i in groups[-1])
        if groups[-1] and width is not None and taken + 2 + widths[column] > width:
            groups.append([])
        groups[-1].append(column)
    first = [shortened(row[0], widths[0]).ljust(widths[0]) for row in rows]
    return [
        ["  ".join((name, *(row[i].rjust(widths[i]) for i in group))) for name, row in zip(first, rows, strict=True)] for group in groups
    ]


def ended(tally: Tally, width: int) -> list[str]:
    """What stays of a phase, on one line where there is room: `✓ rft  solved 50 %, turns 7  1:40`."""
    line = tally.ended()
    if len(line) <= width:
        return [line]
    return [f"{shortened(f'{tally.mark} {tally.name}', width - len(tally.took) - 2)}  {tally.took}", *packed(INDENT, tally.parts, width)]


@dataclass(frozen=True, slots=True)
class Going:
    """How a phase that goes on is told: its name, its bar where there is one, how far it is and what is left, and its facts.

    The name is `above` the rest where it has no room `beside` it, and so are the facts `below`.
    """

    above: str
    name: str
    bar: int
    figures: tuple[str, ...]
    beside: str
    below: tuple[str, ...]


def going_on(tally: Tally, width: int) -> Going:
    """Everything but the bar is told in any width, and the bar where there is room for one."""
    figures = tuple(filter(None, (f"{tally.done}/{tally.total}", tally.left())))
    taken = len("  ".join(figures))
    beside = len(tally.name) + 2 + taken <= width
    taken += len(tally.name) + 2 if beside else 0
    bar = min(BAR, width - taken - 2)
    bar = bar if bar >= LEAST else 0
    taken += bar + 2 if bar else 0
    name = ("", tally.name) if beside else (shortened(tally.name, width), "")
    if taken + 2 + len(tally.facts) <= width:
        return Going(*name, bar, figures, tally.facts, ())
    return Going(*name, bar, figures, "", tuple(packed(INDENT, tally.parts, width)))
