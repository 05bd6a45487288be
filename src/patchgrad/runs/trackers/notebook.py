"""What a person sees of a run in a notebook: one output of the cell, which is written anew in its place."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

from patchgrad.evaluation import lines
from patchgrad.runs.trackers.fitting import blocks
from patchgrad.runs.trackers.tally import Tally
from patchgrad.values import Advanced, Evaluated, Event, Note, PhaseBegan, Report

EVERY = 0.5  # seconds between two looks of a phase
WIDTH = 90  # columns that a cell has room for
Bundle = Mapping[str, str]
Output = Callable[[Bundle], Callable[[Bundle], object]]
"""Shows a text, as plain text and as HTML, and gives what shows another one in its place."""


class Notebook:
    """The phases that have ended, what is to stay, the last table, and how far the phase is that goes on."""

    def __init__(self, output: Output | None = None, every: float = EVERY) -> None:
        self._output, self._every = output or _cell, every
        self._again: Callable[[Bundle], object] | None = None
        self._lines: list[str] = []
        self._table = self._said = ""
        self._tally: Tally | None = None
        self._shown = 0.0
        self._lock = threading.RLock()
        self._later: threading.Timer | None = None

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended()
            self._show()

    def event(self, event: Event) -> None:
        """Tell one fact. What follows another one soon is shown a moment later, together with what comes until then."""
        with self._lock:
            self._take(event)
            soon = self._shown + self._every - time.monotonic()
            if not isinstance(event, Advanced | Note) or soon <= 0:
                self._show()
            elif not self._later:
                self._later = threading.Timer(soon, self._show)
                self._later.daemon = True
                self._later.start()

    def _take(self, event: Event) -> None:
        match event:
            case PhaseBegan(name, total):
                self._ended()
                self._tally = Tally(name, total)
            case Advanced(steps, facts) if self._tally:
                self._tally.add(steps, facts)
            case Note(text, stays=True):
                self._lines.append("  " + text.replace("\n", " "))
            case Note(text):
                self._said = text.replace("\n", " ")
            case Evaluated(reports):
                self._evaluated(reports)

    def _evaluated(self, reports: Sequence[Report]) -> None:
        self._ended()
        self._table = "\n".join(line for block in blocks(lines(reports), WIDTH) for line in block)

    def _ended(self) -> None:
        tally, self._tally, self._said = self._tally, None, ""
        if tally and tally.done:
            self._lines.append(tally.ended())

    def _show(self) -> None:
        with self._lock:
            if self._later:
                self._later.cancel()
            self._later, self._shown = None, time.monotonic()
            self._write(self._text())

    def _text(self) -> str:
        parts = [*self._lines]
        if self._table:
            parts += ["", self._table, ""]
        if tally := self._tally:
            parts.append(" · ".join(filter(None, (tally.name, f"{tally.done}/{tally.total}", tally.facts, tally.left(), self._said))))
        return "\n".join(parts)

    def _write(self, text: str) -> None:
        bundle = {"text/plain": text, "text/html": f'<pre style="white-space: pre-wrap">{escape(text)}</pre>'}
        if self._again:
            self._again(bundle)
        else:
            self._again = self._output(bundle)


def in_notebook() -> bool:
    """Does this process answer a notebook? A terminal of IPython is none."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell else None
    return getattr(found, "kernel", None) is not None


def _cell(bundle: Bundle) -> Callable[[Bundle], object]:
    """An output of the cell that is run."""
    display: Callable[..., Any] = import_module("IPython.display").display
    handle = display(dict(bundle), raw=True, display_id=True)
    return lambda other: handle.update(dict(other), raw=True)
