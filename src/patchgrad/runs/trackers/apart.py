"""A board that a process of its own fills: one that fails, hangs or is missing never touches the run, and is told of once."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from patchgrad.values import Evaluated, Event, Measured

SECONDS = 30.0
"""In which a board has to be done when the run is."""

log = logging.getLogger(__name__)


class Apart:
    """Starts the process, tells it when there is something new in the run's folder, and says what became of it."""

    def __init__(self, folder: Path, name: str, options: Mapping[str, Any]) -> None:
        self._folder, self._name, self._over = folder, name, False
        home = folder / "trackers"
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / f"{name}.log"
        paths = os.pathsep.join(filter(None, sys.path))
        reads, self._wake = os.pipe()
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "patchgrad.runs.trackers.following", str(folder), name, json.dumps(dict(options))],
                stdin=reads,
                stdout=said,
                stderr=said,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # a Ctrl-C is for the run; this one ends when nothing more comes from it
            )
        os.close(reads)
        os.set_blocking(self._wake, False)

    def event(self, event: Event) -> None:
        if self._over or not isinstance(event, Measured | Evaluated):
            return
        if self._process.poll() is not None:
            self._tell(self._why())
            return
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._wake, b"\n")

    def close(self, seconds: float = SECONDS) -> None:
        """It tells the rest; where that takes longer it is ended."""
        with suppress(OSError):
            os.close(self._wake)
        try:
            if self._process.wait(seconds):
                self._tell(self._why())
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._tell(f"it was not done {seconds:.0f} s after the run")

    def _why(self) -> str:
        with suppress(OSError):
            lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
            return lines[-1].strip() if lines else "it gave no reason"
        return "it gave no reason"

    def _tell(self, why: str) -> None:
        if not self._over:
            self._over = True
            later = f"Fill it later: patchgrad track {self._folder} --to {self._name}"
            log.warning("The board %s is told nothing more (%s). %s", self._name, why, later)
