"""A coroutine is run to its end, wherever it was asked for: also from a notebook, whose thread has an event loop that is running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `await main()` gives. Where a loop is running here already, `main` gets one in a thread of its own, and this one waits for it.

    An interrupt of the waiting thread cancels `main`, waits for it to clean up, and goes on as what it was.
    """
    return _elsewhere(main) if _inside_a_loop() else asyncio.run(main())


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _elsewhere(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    done: Future[T] = Future()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def told() -> T:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await main()

    def work() -> None:
        try:
            done.set_result(asyncio.run(told()))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=work, name="patchgrad")
    thread.start()
    try:
        return done.result()
    except BaseException:
        if not done.done():
            loop, task = begun.result()
            if task:
                loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
