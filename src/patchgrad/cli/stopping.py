"""What ends a command: Ctrl-C, or the signal with which systems end a job. In either case what it has opened is closed first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """A command was stopped; its words are for the user, and `code` is how it exits: 130, or 143 where the system asked for it."""

    def __init__(self, told: str, code: int) -> None:
        super().__init__(told)
        self.code = code


@contextmanager
def stoppable() -> Iterator[None]:
    """Within it SIGTERM interrupts the main thread as SIGINT does, and an interrupt becomes `Stopped`, with the words that it has."""
    asked = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # as it is behind a shell's &
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)  # whose handler an event loop has replaced by one that lets its tasks clean up

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if main else None
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Stopped(str(stop) or "stopped.", 143 if asked else 130) from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
