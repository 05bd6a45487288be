"""Keeps a run's `status.json`: the phase, how far it is, and what is waited for right now, written by a thread every second."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from patchgrad.contracts import Tracker
from patchgrad.store import status
from patchgrad.values import Advanced, Event, PhaseBegan
from patchgrad.waiting import Waits

T = TypeVar("T")
EVERY, BEAT = 1.0, 10.0
"""Seconds between two looks, and after which it is written although nothing has changed: so a reader elsewhere knows that it is alive."""


class Status:
    """A tracker that tells another one each event, and writes what they say of the whole to the folder.

        with Status(run.folder, tracker) as status:
            run_to_end(lambda: status.over(work(status)))

    At the end of the block it says how that ended. A folder that cannot be written just now is no fault of the run's.
    """

    def __init__(self, folder: Path, tracker: Tracker) -> None:
        self._folder, self._tracker = folder, tracker
        self._waits = Waits()
        self._phase: dict[str, Any] = {}
        self._who = status.process()
        self._written: tuple[dict[str, Any], float] = ({}, 0.0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="status", daemon=True)

    def __enter__(self) -> Status:
        self._write("")
        self._thread.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, *rest: object) -> None:
        self._end.set()
        self._thread.join()
        self._write(_ended(error))

    def event(self, event: Event) -> None:
        """Notes what it says of the phase, and hands it on."""
        match event:
            case PhaseBegan(name, total):
                self._phase = {"name": name, "done": 0, "total": total}
            case Advanced(steps):
                self._phase = {**self._phase, "done": self._phase.get("done", 0) + steps}
        self._tracker.event(event)

    async def over(self, work: Awaitable[T]) -> T:
        """What the work gives; what it waits for meanwhile is told."""
        with self._waits.counted():
            return await work

    def _go_on(self) -> None:
        while not self._end.wait(EVERY):
            self._write("")

    def _write(self, ended: str) -> None:
        told = {**self._who, "phase": self._phase, "waits": self._waits.counts(), "ended": ended}
        before, at = self._written
        if told == before and time.time() - at < BEAT:
            return
        now = time.time()
        with suppress(OSError):
            status.write(self._folder, {**told, "at": now})
            self._written = told, now


def _ended(error: BaseException | None) -> str:
    if error is None:
        return "done"
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
        return "interrupted"
    return f"failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
