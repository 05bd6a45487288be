"""Long work in a thread of its own, which ends early where nobody waits for it any more.

An event loop goes on while the work runs. A thread cannot be ended from outside: where its caller is cancelled, as by Ctrl-C, the work is
asked to stop, and does so where it says `may_stop()`, which is between two updates.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_ASKED: ContextVar[threading.Event | None] = ContextVar("asked", default=None)


class Stopped(Exception):
    """Work ended early. Nobody sees it: who waited was cancelled."""


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What the work gives, done in a thread; a caller that is cancelled goes on at once, and the work ends at its next `may_stop()`."""
    asked, context = threading.Event(), copy_context()
    context.run(_ASKED.set, asked)
    try:
        return await asyncio.get_running_loop().run_in_executor(None, partial(context.run, work, *arguments, **options))
    except asyncio.CancelledError:
        asked.set()
        raise


def may_stop() -> None:
    """A place where work can end: it does so if it has been asked to. Nothing happens to work that runs in no such thread."""
    asked = _ASKED.get()
    if asked is not None and asked.is_set():
        raise Stopped
