"""Sampling that runs ahead: what is trained is never older than the bound, whatever takes how long."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.attempts import some_groups

from patchgrad.errors import ConfigError
from patchgrad.learning.ahead import Ahead, Batch
from patchgrad.learning.curricula.outcomes import Outcomes
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.component import Component
from patchgrad.recipes.loss import ImportanceCorrection, LossChoice
from patchgrad.recipes.stage import Stage, StageSampling, Start
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.values import Group, Rollout, Task

TASKS = [group.task for group in some_groups()]


def untold(rollout: Rollout) -> None:
    """Nobody listens."""


class Simulated(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to what happens next."""

    def __init__(self) -> None:
        self.now = 0.0
        loop = self

        class Jumping(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> list[Any]:
                loop.now += timeout or 0.0
                return super().select(0)

        super().__init__(Jumping())

    def time(self) -> float:
        return self.now


@dataclass
class Schedule:
    """A stage whose attempts, turns and updates take random times. `drawn` are the versions of a batch's turns, by its label."""

    seed: int
    lag: int
    version: int = 0
    begun: int = 0
    trained: list[str] = field(default_factory=list)
    drawn: dict[str, list[int]] = field(default_factory=dict)
    ages: list[int] = field(default_factory=list)

    async def collect(self, batch: Batch) -> list[Group]:
        chance = random.Random(f"{self.seed} {batch.label}")
        self.begun += 1
        assert self.begun - len(self.trained) <= self.lag + 1, "more was begun than the lag allows"
        self.drawn[batch.label] = []
        await asyncio.gather(*(self.attempt(batch, chance.choice([1, 2, 5, 20]), chance.random()) for _ in range(3)))
        return []

    async def attempt(self, batch: Batch, turns: int, slow: float) -> None:
        for _ in range(turns):
            self.drawn[batch.label].append(self.version)
            await asyncio.sleep(slow)

    async def stage(self, iterations: int) -> None:
        ahead, chance = Ahead(), random.Random(self.seed)
        labels = [f"iteration {number}" for number in range(iterations)]
        for number, label in enumerate(labels):
            ahead.begin(labels[number : number + self.lag + 1], lambda: TASKS, self.version, self.collect)
            await ahead.take(untold)
            window = ahead.window(self.lag)
            assert set(self.drawn[label]) <= set(window), "a turn is older than the bound"
            assert window[-1] == self.version, "the newest weights are trained"
            self.ages.append(len(window) - 1 - window.index(min(self.drawn[label])))
            self.trained.append(label)
            await asyncio.sleep(chance.random() * 5)
            self.version += chance.randrange(1, 4)  # optimiser steps
            ahead.publish(self.version)
        assert not ahead.batches
        await ahead.close()


def test_nothing_that_is_trained_is_older_than_the_lag_in_ten_thousand_schedules() -> None:
    loop = Simulated()
    oldest = dict.fromkeys(range(4), 0)
    for seed in range(10_000):
        schedule = Schedule(seed, seed % 4)
        loop.run_until_complete(schedule.stage(5))
        assert schedule.trained == [f"iteration {number}" for number in range(5)], "each batch is trained once, in its turn"
        oldest[schedule.lag] = max(oldest[schedule.lag], *schedule.ages)
    loop.close()
    assert oldest == {lag: lag for lag in range(4)}, "the bound is reached"


def test_a_lag_saves_the_time_of_whatever_is_shorter() -> None:
    loop, took = Simulated(), dict[int, float]()
    for lag in range(3):
        began = loop.now
        for seed in range(200):
            loop.run_until_complete(Schedule(seed, lag).stage(6))
        took[lag] = loop.now - began
    loop.close()
    assert took[2] <= took[1] < 0.9 * took[0]


def test_what_was_begun_is_begun_again_under_the_version_that_it_began_with() -> None:
    seen: list[tuple[str, int, int]] = []

    async def collect(batch: Batch) -> list[Group]:
        seen.append((batch.label, batch.since, len(batch.tasks)))
        return []

    def never() -> Sequence[Task]:
        raise AssertionError("these tasks were drawn before")

    async def begin() -> dict[str, Any]:
        ahead = Ahead()
        ahead.begin(["a", "b"], lambda: TASKS, 3, collect)
        await ahead.take(untold)
        ahead.publish(5)
        ahead.begin(["b", "c"], lambda: TASKS[:1], 5, collect)
        await asyncio.sleep(0)
        state = ahead.state()
        await ahead.close()
        return state

    async def again(state: dict[str, Any]) -> None:
        ahead = Ahead.restored(state, {task.id: task for task in TASKS})
        ahead.begin(["b", "c"], never, 5, collect)
        await ahead.take(untold)
        assert ahead.window(1) == [3, 5]
        with pytest.raises(ValueError, match="c was begun where d is next"):
            ahead.begin(["d"], never, 5, collect)
        await ahead.close()

    state = asyncio.run(begin())
    assert seen == [("a", 3, len(TASKS)), ("b", 3, len(TASKS)), ("c", 5, 1)]
    seen.clear()
    asyncio.run(again(state))
    assert seen == [("b", 3, len(TASKS)), ("c", 5, 1)]


def test_an_attempt_is_told_when_it_is_its_iteration_s_turn() -> None:
    rollouts, heard = [rollout for group in some_groups() for rollout in group.rollouts], list[str]()

    def hear(rollout: Rollout) -> None:
        heard.append(rollout.trajectory.id)

    async def collect(batch: Batch) -> list[Group]:
        first = 0 if batch.label == "a" else 3
        for rollout in rollouts[first : first + 3]:
            await asyncio.sleep(0.01 if batch.label == "a" else 0)
            batch.ended(rollout)
        return []

    async def stage() -> None:
        ahead = Ahead()
        ahead.begin(["a", "b"], lambda: TASKS, 0, collect)
        await ahead.take(hear)
        assert heard == [rollout.trajectory.id for rollout in rollouts[:3]], "b has ended, and it is not its turn"
        await ahead.take(hear)

    asyncio.run(stage())
    assert heard == [rollout.trajectory.id for rollout in rollouts[:6]]


async def noted(shared: list[str], item: str) -> str:
    shared.append(item)
    await asyncio.sleep(0.01)
    return item


def test_items_of_an_earlier_batch_come_first_and_both_together_keep_the_bound() -> None:
    executor, began = LocalExecutor(2), list[str]()

    async def batch(name: str) -> list[str]:
        return [result async for result in executor.map(f"{__name__}:noted", began, [f"{name}{i}" for i in range(4)])]

    async def both() -> None:
        first = asyncio.create_task(batch("first "))
        await asyncio.sleep(0)
        second = asyncio.create_task(batch("second "))
        await asyncio.gather(first, second)

    asyncio.run(both())
    assert [name.split()[0] for name in began] == ["first"] * 4 + ["second"] * 4


def test_outcomes_belong_to_the_draw_that_their_tasks_came_in() -> None:
    outcomes = Outcomes()
    outcomes.draw(["a", "b"])
    outcomes.draw(["b", "c"])
    for task, share in (("b", 0.25), ("a", None), ("c", 1.0), ("b", 0.75)):
        outcomes.observe(task, share)
    other = Outcomes()
    other.restore(outcomes.state())
    assert other.shares == [[0.25], [1.0, 0.75]]


def test_a_lag_without_a_correction_is_refused_by_name() -> None:
    sampling = StageSampling(lag=1)
    Stage(sampling=sampling)
    Stage(sampling=sampling, loss=LossChoice(old="recomputed", correction=ImportanceCorrection(truncate_token=2.0)))
    for loss in (LossChoice(old="recomputed"), LossChoice(objective=Component("reinforce"))):
        with pytest.raises(ConfigError, match="earlier weights have sampled what is trained"):
            Stage(sampling=sampling, loss=loss)
    with pytest.raises(ConfigError, match=r"set forks to 0, and start.at"):
        Stage(sampling=sampling, start=Start(at="prefixes"))
    with pytest.raises(ConfigError, match="forks"):
        Stage(sampling=StageSampling(lag=1, forks=2), advantage=AdvantageChoice(baseline="turns"))
