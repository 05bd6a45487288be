"""Ways to tell a person what a run does: live in a terminal, as plain lines in a log, or not at all; and which of them fits.

All of them are a `contracts.Tracker` and a context: `with Live() as tracker: train(recipe, run, tracker)`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from patchgrad.evaluation import aligned, lines
from patchgrad.runs.trackers.fitting import blocks, ended, going_on
from patchgrad.runs.trackers.notebook import Notebook, in_notebook
from patchgrad.runs.trackers.tally import Tally
from patchgrad.values import Advanced, Evaluated, Event, Note, PhaseBegan, Report

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

EVERY = 10.0  # seconds between two lines of a log


class Silent:
    """Tells nothing: for machines, and for tests."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def event(self, event: Event) -> None:
        """Nothing is told."""


class Plain:
    """Lines for a log: each phase as it begins and ends, and between them one line every ten seconds with the last thing said."""

    def __init__(self, stream: TextIO | None = None, every: float = EVERY) -> None:
        self._stream, self._every = stream or sys.stderr, every
        self._tally: Tally | None = None
        self._said = ""
        self._told = 0.0

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def event(self, event: Event) -> None:
        """Tell one fact."""
        match event:
            case PhaseBegan(name, total):
                self._begin(name, total)
            case Advanced(steps, facts):
                self._advance(steps, facts)
            case Note(text, stays=True):
                self._write("  " + text.replace("\n", " "))
            case Note(text):
                self._said = text.replace("\n", " ")
            case Evaluated(reports):
                self._table(reports)

    def _begin(self, name: str, total: int) -> None:
        self._tally, self._told, self._said = Tally(name, total), time.monotonic(), ""
        self._write(name)

    def _advance(self, steps: int, facts: Mapping[str, bool | float | str]) -> None:
        tally = self._tally
        if tally is None:
            return
        tally.add(steps, facts)
        now = time.monotonic()
        if tally.done >= tally.total or now - self._told >= self._every:
            self._told = now
            parts = (f"{tally.done}/{tally.total}", tally.facts, tally.left(), self._said)
            self._write("  " + " · ".join(part for part in parts if part))

    def _table(self, reports: Sequence[Report]) -> None:
        self._write(aligned(reports))

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class Live:
    """A display that stays in place: the phase, its bar with the time left, the facts so far, and what the agent just did."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live as Display

        self._tally: Tally | None = None
        self._said = ""
        self._console = console or Console(stderr=True)
        self._display = Display(console=self._console, get_renderable=self._render, refresh_per_second=5, transient=True)

    def __enter__(self) -> Live:
        self._display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._finish()
        self._display.__exit__(*error)

    def event(self, event: Event) -> None:
        """Tell one fact."""
        match event:
            case PhaseBegan(name, total):
                self._begin(name, total)
            case Advanced(steps, facts):
                self._advance(steps, facts)
            case Note(text, stays=True):
                self._stay(text)
            case Note(text):
                self._said = text.replace("\n", " ")
            case Evaluated(reports):
                self._table(reports)

    def _begin(self, name: str, total: int) -> None:
        """The phase before becomes one line above the display."""
        self._finish()
        self._tally, self._said = Tally(name, total), ""

    def _advance(self, steps: int, facts: Mapping[str, bool | float | str]) -> None:
        if self._tally:
            self._tally.add(steps, facts)

    def _table(self, reports: Sequence[Report]) -> None:
        """The table so far, above the display; in a narrow terminal in several parts, one below the other."""
        self._finish()
        for headings, *rows in blocks(lines(reports), self._console.width):
            self._print(headings, "dim")
            for number, row in enumerate(rows, 1):
                self._print(row, "bold" if number == len(rows) else "")

    def _stay(self, text: str) -> None:
        """A line above the display."""
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text(text.replace("\n", " ")), (0, 0, 0, 2), expand=False))

    def _finish(self) -> None:
        tally, self._tally = self._tally, None
        if tally and tally.done:
            from rich.text import Text

            first, *others = ended(tally, self._console.width)
            line = Text(first)
            line.stylize("green", 0, 1)
            line.stylize("dim", len(f"✓ {tally.name}"))
            self._console.print(line)
            for other in others:
                self._print(other, "dim")

    def _print(self, line: str, style: str) -> None:
        from rich.text import Text

        self._console.print(Text(line, style, no_wrap=True))

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        tally = self._tally
        if tally is None:
            return Text("")
        going = going_on(tally, self._console.width)
        line = Table.grid(padding=(0, 2))
        bar = [ProgressBar(total=max(tally.total, 1), completed=tally.done, width=going.bar)] if going.bar else []
        beside = [Text(going.beside, "cyan")] if going.beside else []
        name = [Text(going.name, "bold")] if going.name else []
        line.add_row(*name, *bar, *going.figures, *beside)
        said = Text(self._said, "dim", no_wrap=True, overflow="ellipsis")
        above = [Text(going.above, "bold")] if going.above else []
        return Group(*above, line, *(Text(below, "cyan") for below in going.below), said)


def choose(quiet: bool) -> Silent | Notebook | Plain | Live:
    """Live in a terminal, one output in a notebook, plain lines where the output goes elsewhere, silent when asked."""
    if quiet:
        return Silent()
    if in_notebook():
        return Notebook()
    return Live() if sys.stderr.isatty() else Plain()
