"""What a run waits for right now: whoever waits says so where it does, and whoever tells people of the run reads how many wait for what.

    with waiting_for("tools"):
        answer = await tool(...)

Nothing is counted where nobody asks for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

What = Literal["sampling", "tools", "tests", "judges", "sandboxes", "memory", "training", "weights", "checkpoint", "probe"]
"""The policy's answer, a tool's, the tests of a submission, a judge, a sandbox, memory for one, an update of the weights, the policies that
take them over, a checkpoint on its way to the disk, the check of the sampler."""


class Waits:
    """How many wait for what.

    >>> waits = Waits()
    >>> with waits.counted(), waiting_for("sandboxes"), waiting_for("memory"):
    ...     waits.counts()
    {'memory': 1}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[What] = Counter()

    def counts(self) -> dict[What, int]:
        """Now. One that waits within another wait counts for the inner one alone."""
        with self._lock:
            return {what: count for what, count in self._counts.items() if count > 0}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Who waits within the block, or in a task that begins there, counts here."""
        token = _HERE.set((self, None))
        try:
            yield
        finally:
            _HERE.reset(token)

    def move(self, one: What | None, other: What | None) -> None:
        """One more waits for `other`, and one less for `one`."""
        with self._lock:
            if one is not None:
                self._counts[one] -= 1
            if other is not None:
                self._counts[other] += 1


_HERE: ContextVar[tuple[Waits | None, What | None]] = ContextVar("waiting", default=(None, None))


@contextmanager
def waiting_for(what: What) -> Iterator[None]:
    """The block is a wait for this."""
    waits, outer = _HERE.get()
    if waits is None:
        yield
        return
    token = _HERE.set((waits, what))
    waits.move(outer, what)
    try:
        yield
    finally:
        waits.move(what, outer)
        _HERE.reset(token)
