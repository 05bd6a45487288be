"""Work that may never end, in a thread that keeps nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_a_daemon(work: Callable[[], T]) -> T:
    """The work's result, from a thread that ends by itself: who asks can be cancelled, and a program can end meanwhile."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(told: Callable[[], None]) -> None:
        if not done.cancelled():
            told()

    def run() -> None:
        try:
            told = partial(done.set_result, work())
        except BaseException as raised:  # whatever it is, who waits must hear of it
            told = partial(done.set_exception, raised)
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, told)

    threading.Thread(target=run, name="patchgrad-daemon", daemon=True).start()
    return await done
