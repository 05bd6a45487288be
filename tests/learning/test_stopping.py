"""Work in a thread whose caller is cancelled, as by Ctrl-C, ends at its next step, and does nothing that nobody waits for."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.attempts import some_groups
from tests.learning.test_loop import GROUPS, ROW, SIZES
from tests.learning.test_loop import trainer as a_trainer

from patchgrad.contracts import Objective
from patchgrad.learning.loop import learn
from patchgrad.learning.stopping import Stopped, in_thread, may_stop
from patchgrad.recipes import RECIPES
from patchgrad.runs.demonstrations.warmup import warm_up
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Batch, StepSettings, Update


class Slow:
    """A trainer whose first update ends when it may; it counts its updates."""

    def __init__(self, own: LocalTrainer) -> None:
        self.own, self.updates = own, 0
        self.began, self.may_end = threading.Event(), threading.Event()

    def update(self, batch: Batch, objective: Objective, settings: StepSettings) -> Update:
        self.updates += 1
        self.began.set()
        assert self.may_end.wait(20)
        return self.own.update(batch, objective, settings)


def interrupted(work: Callable[[Slow], object]) -> int:
    """How many updates there are when the caller is cancelled in the first one."""
    slow = Slow(a_trainer())

    async def main() -> None:
        task = asyncio.create_task(in_thread(work, slow))
        assert await asyncio.to_thread(slow.began.wait, 20)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert not slow.may_end.is_set(), "the caller goes on at once"
        slow.may_end.set()

    asyncio.run(main())  # waits for the thread
    return slow.updates


def test_an_iteration_ends_after_the_update_in_which_its_caller_was_cancelled() -> None:
    assert interrupted(lambda slow: learn(GROUPS, ROW, slow, replace(SIZES, minibatch=2, epochs=3), 0)) == 1  # type: ignore[arg-type]


def test_a_warm_up_ends_after_the_update_in_which_its_caller_was_cancelled() -> None:
    recipe = replace(RECIPES["smoke"]())
    shown = [rollout for group in some_groups() for rollout in group.rollouts]
    assert interrupted(lambda slow: warm_up(recipe, shown, slow, lambda _: None)) == 1  # type: ignore[arg-type]


def test_ctrl_c_ends_work_at_its_next_step() -> None:
    steps = 0

    def work() -> None:
        nonlocal steps
        while steps < 20_000:
            may_stop()
            steps += 1
            if steps == 2:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.001)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(in_thread(work))
    finally:
        signal.signal(signal.SIGINT, before)
    assert 2 <= steps < 20_000


def test_work_that_nobody_can_cancel_goes_on() -> None:
    may_stop()
    assert asyncio.run(in_thread(lambda a, b: a + b, 1, b=2)) == 3


def test_what_work_raises_is_raised_to_who_waits() -> None:
    def work() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        asyncio.run(in_thread(work))
    assert not issubclass(Stopped, OSError)
