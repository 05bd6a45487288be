"""One thing that was looked at, and how a page of them is printed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

VERDICTS = {"works": "yes", "does not": "NO", "not needed": "no"}
"""By its verdict the mark before a line."""

NAMES = 24
"""Columns that a name has beside its note; a longer one has a line for itself."""

NOTES = 30
"""Columns that a note needs beside its name."""

INDENT = 9
"""Columns before what stands below a line."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: does it hold, what was found or what its lack means, can a run do without it, and what helps?

    `help` is one command where there is one, else a few words; it is empty where nothing is to be done.
    """

    name: str
    holds: bool
    note: str = ""
    needed: bool = True
    help: str = ""

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        return "works" if self.holds else "does not" if self.needed else "not needed"

    def row(self) -> dict[str, object]:
        """For machines."""
        return {**asdict(self), "verdict": self.verdict}


def ready(found: Sequence[Finding]) -> bool:
    """Does all hold that is needed?"""
    return all(finding.holds or not finding.needed for finding in found)


def page(parts: Mapping[str, Sequence[Finding]], width: int) -> Iterator[str]:
    """The lines of all parts. None is longer than `width`, but a command and a path, which are there to be copied.

    What helps several findings in a row stands once, below them.
    """
    for title, part in parts.items():
        yield from ("", title)
        for finding, following in pairwise((*part, None)):
            if finding:
                yield from _lines(finding, width)
            if finding and finding.help and (not following or following.help != finding.help):
                yield f"{' ' * INDENT}> {finding.help}"


def _lines(finding: Finding, width: int) -> Iterator[str]:
    mark = f"  {VERDICTS[finding.verdict]:<3}  "
    beside = f"{mark}{finding.name:<{NAMES}}  "
    if len(finding.name) <= NAMES and width - len(beside) >= NOTES:
        yield from _wrapped(beside, finding.note, width)
    else:
        yield from _wrapped(mark, finding.name, width)
        yield from _wrapped(" " * INDENT, finding.note, width) if finding.note else ()


def _wrapped(start: str, text: str, width: int) -> list[str]:
    """The first line begins with `start`, the others stand below its end."""
    room = max(1, width - len(start))
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{start if number == 0 else ' ' * len(start)}{line}".rstrip() for number, line in enumerate(lines)]
