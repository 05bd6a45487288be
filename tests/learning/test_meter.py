"""Core-seconds of an iteration, in this process and in others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from patchgrad.learning.meter import Meter
from patchgrad.links.link import Message
from patchgrad.links.processes import ProcessLink
from patchgrad.links.spending import Spending, Spent, cores, machine


class Busy:
    """Computes for so many seconds of its own, and says so."""

    def __init__(self, post: Callable[[Message], None], seconds: str) -> None:
        self._post, self._seconds = post, float(seconds)

    def take(self, message: Message) -> None:
        begun = time.process_time()
        while time.process_time() - begun < self._seconds:
            pass
        self._post("done")

    async def close(self) -> None:
        """Nothing to put away."""


def test_what_a_process_elsewhere_computes_is_sampling_and_not_the_sandboxes() -> None:
    async def measured() -> dict[str, float]:
        link = ProcessLink("busy", f"{__name__}:Busy", "1.5")
        meter = Meter()
        link.post("go")
        assert await link.received() == "done"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(link.received(), 3)  # a sign of life says what it has computed
        meter.lap()
        meter.lap()
        await link.close()
        return meter.usage([])

    usage = asyncio.run(measured())
    assert 1.5 <= usage["sampling"] < 1.5 + 5
    assert usage["training"] < 0.5


def test_ranks_train_and_machines_elsewhere_are_busy() -> None:
    spending = Spending()
    spending.heard("training", Spent("a rank", "another machine", cores=8, own=1.0, busy=1000.0))
    meter = Meter(spending)
    time.sleep(0.05)
    meter.lap()
    spending.heard("training", Spent("a rank", "another machine", cores=8, own=1.2, busy=1000.3))
    spending.heard("sampling", Spent("a host", machine(), cores=2, own=0.5, busy=7.0))
    meter.lap()
    usage = meter.usage([])
    assert usage["training"] == pytest.approx(0.2, abs=0.05)
    assert usage["sampling"] == pytest.approx(0.5, abs=0.1)
    assert usage["idle"] == pytest.approx((cores() + 8) * usage["wall"] * (1 - usage["cores_busy"]))
    assert usage["cores_busy"] > 0


def test_what_was_computed_before_an_iteration_is_not_its_own() -> None:
    spending = Spending()
    spending.heard("training", Spent("a rank", "another machine", cores=8, own=100.0, busy=1000.0))
    time.sleep(0.01)
    meter = Meter(spending)
    meter.lap()
    meter.lap()
    usage = meter.usage([])
    assert usage["training"] < 1
    assert usage["idle"] <= cores() * usage["wall"], "a machine that was not heard has no core in it"


def test_a_process_that_is_lost_has_computed_what_it_said_last() -> None:
    spending = Spending()
    for own in (1.0, 3.0, 2.0):
        spending.heard("sampling", Spent("first", "another machine", cores=8, own=own, busy=own))
    spending.heard("sampling", Spent("second", "another machine", cores=2, own=2.0, busy=2.0))
    spending.heard("sampling", Spent("third", machine(), cores=8, own=4.0, busy=4.0))
    spending.heard("sampling", None)
    told = spending.account()
    assert told.sampling == 2.0 + 0.0 + 4.0, "what came before the first word from another machine was not seen"
    assert told.busy == 2.0, "an older reading of the machine takes nothing away"
    assert told.cores == 8, "some of its processes may use fewer"
