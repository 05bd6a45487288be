"""The loop: draw, roll out, grade, credit, pack, update, publish.

    play    (tasks)  -> groups     every attempt in its own sandbox, graded in another; consumes tasks, waits for policy and sandboxes
    learn   (groups) -> updates    select x advantage x objective x aggregation: an algorithm is a row
    iterate                        both, then publishes the weights to the policy and the outcomes to the curriculum

With `lag = 0`, the only mode here, sampling waits for the update and the update for all verdicts: the paper's synchronous loop
(arXiv 2508.03501, section 4.3). Evaluation is `play` without `learn`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from patchgrad.certificates import Terms, certify, certify_batch, certify_samples
from patchgrad.contracts import (
    Agent,
    Aggregate,
    Correction,
    Curriculum,
    Estimator,
    Executor,
    Objective,
    Policy,
    Rescale,
    Restart,
    RewardFunction,
    Sandboxes,
    Score,
    Select,
    TrainablePolicy,
    Trainer,
)
from patchgrad.credit import FailurePolicy, as_they_are, by_group, corrected, kept
from patchgrad.errors import SandboxFault
from patchgrad.packing import minibatches, pack, scored, token_mean
from patchgrad.rollout import Budget, commit, rollout
from patchgrad.values import (
    Ending,
    Group,
    Rollout,
    Sample,
    Sampling,
    Segment,
    Snapshot,
    Task,
    Trajectory,
    Turn,
    Update,
    Verdict,
    digest,
    genesis,
)

log = logging.getLogger(__name__)

REOPENED = 2  # times that an attempt goes on after its sandbox or its policy broke
NEUTRAL = Sampling(max_tokens=1, seed=0)


@dataclass(frozen=True, slots=True)
class World:
    """What an episode needs, handed in by a recipe. `on_turn(trajectory id, turn)` writes the journal, `on_state` what turns left.

    `recall(trajectory id, beginning)` reads what the journal knows of an attempt, and `state(address, directory)` what a turn left: an
    attempt that was interrupted goes on after its last turn, one that had ended is not made again. `sampling` shapes the distribution, in
    evaluations and studies only; its seed and length are replaced. What is trained on has to be `journalled`.
    """

    agent: Agent
    sandboxes: Sandboxes
    grade: Callable[[Task, str], Awaitable[Verdict]]
    executor: Executor
    on_turn: Callable[[str, Turn], None] = lambda _, turn: None
    on_state: Callable[[Snapshot], None] = lambda _: None
    on_ending: Callable[[str, Ending], None] = lambda _, ending: None
    recall: Callable[[str, str], tuple[tuple[Turn, ...], Ending | None]] = lambda _, beginning: ((), None)
    state: Callable[[str, str], Snapshot] | None = None
    journalled: Callable[[str], bool] | None = None
    sampling: Sampling = NEUTRAL


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A row of the table of algorithms.

    With `whole_groups` a minibatch never holds a part of a group: advantages that add up to zero in a group then do so in every step.
    Where `old` is `recomputed`, ratios are taken to the trainer's own log-probabilities from before the first step, and `correction` may
    answer for their difference to the sampler's. `reference` scores for a penalty that pulls to another model (`objectives/penalty.py`).
    """

    select: Select
    estimator: Estimator
    objective: Objective
    failures: FailurePolicy
    whole_groups: bool = False
    rescale: Rescale = as_they_are
    aggregate: Aggregate = token_mean
    old: Literal["sampled", "recomputed"] = "sampled"
    correction: Correction | None = None
    reference: Score | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one iteration.

    `minibatch` is the least number of trajectories in an optimiser step, `pack` the tokens of a forward pass, shared by `workers`.
    `on_steps` is told how many optimiser steps come, before the first: a schedule may need to know.
    """

    tasks: int
    attempts: int
    budget: Budget
    reward: RewardFunction
    minibatch: int
    pack: int
    workers: int = 1
    epochs: int = 1
    on_steps: Callable[[int], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Attempt:
    task: Task
    id: str
    seed: int


async def attempt(world: World, policy: Policy, item: Attempt, budget: Budget, reward: RewardFunction) -> Rollout:
    """One attempt: a fresh sandbox, an episode, a grade in another sandbox, a reward.

    What the journal knows of it is not done again. Where its sandbox or its policy breaks, it goes on after its last turn, in a new one, at
    most `REOPENED` times. A sandbox that cannot be opened is a failed trajectory: data, not a crash.
    """
    started = time.monotonic()
    turns, ending = _recalled(world, policy, item)
    if ending is not None:
        trajectory = Trajectory(
            item.id, item.task.id, segments_of(world.agent, item.task, turns), ending.stop, ending.submission, ending.seconds
        )
        return Rollout(item.task, trajectory, ending.verdict, reward(item.task, trajectory, ending.verdict))
    for _ in range(1 + REOPENED):
        trajectory = await _episode(world, policy, item, budget, turns)
        if trajectory.stop != "failed":
            break
        turns = _whole(trajectory.turns) if world.state else ()
    trajectory = replace(trajectory, seconds=time.monotonic() - started)
    if trajectory.turns or trajectory.stop != "failed":
        verdict = await _graded(world, item.task, trajectory.submission)
    else:
        verdict = Verdict(item.task.id, "", (), (), fault="its sandbox could not be opened, or broke before the first turn")
    done = Rollout(item.task, trajectory, verdict, reward(item.task, trajectory, verdict))
    if not done.broken:
        last = trajectory.turns[-1].address if trajectory.turns else genesis(item.task, item.id)
        world.on_ending(item.id, Ending(last, trajectory.stop, trajectory.submission, verdict, trajectory.seconds))
    return done


async def _graded(world: World, task: Task, submission: str) -> Verdict:
    """A sandbox that breaks while it judges is no judgement: another one is asked."""
    verdict = await world.grade(task, submission)
    for _ in range(REOPENED):
        if verdict.fault is None:
            break
        verdict = await world.grade(task, submission)
    return verdict


def _recalled(world: World, policy: Policy, item: Attempt) -> tuple[tuple[Turn, ...], Ending | None]:
    """What is known of an attempt under this very policy; an earlier version's turns are another attempt's."""
    turns, ending = world.recall(item.id, genesis(item.task, item.id))
    if world.state is None or any(turn.action.version != policy.version for turn in turns):
        return (), None
    return (turns, ending) if ending else (_whole(turns), None)


def _whole(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns before the one in which infrastructure broke."""
    return tuple(itertools.takewhile(lambda turn: turn.observation.failure != "infrastructure", turns))


def segments_of(agent: Agent, task: Task, turns: Sequence[Turn]) -> tuple[Segment, ...]:
    """The turns of an attempt as the token streams that they form: an agent that is asked again says again where it began a new one."""
    found: list[list[Turn]] = []
    for number, turn in enumerate(turns):
        if not number or isinstance(agent.prompt(task.instruction, tuple(turns[:number])), Restart):
            found.append([])
        found[-1].append(turn)
    return tuple(Segment(tuple(segment)) for segment in found)


async def _episode(world: World, policy: Policy, item: Attempt, budget: Budget, turns: tuple[Turn, ...]) -> Trajectory:
    """The rest of an attempt after these turns, in a sandbox of its own."""
    segments = segments_of(world.agent, item.task, turns)
    try:
        base = ""
        if turns:  # an agent may have committed in them
            async with await world.sandboxes.open(item.task) as fresh:
                base = await commit(fresh)
        state = world.state(turns[-1].state, turns[-1].observation.place.directory) if turns and world.state else None
        sandbox = await world.sandboxes.open(item.task, state)
    except SandboxFault as fault:
        log.warning("%s: %s", item.id, fault)
        return Trajectory(item.id, item.task.id, segments, "failed", "")
    try:
        return await rollout(
            item.task,
            world.agent,
            policy,
            sandbox,
            budget,
            attempt_id=item.id,
            seed=item.seed,
            on_turn=lambda turn: world.on_turn(item.id, turn),
            on_state=world.on_state,
            sampling=world.sampling,
            history=segments,
            base=base,
        )
    finally:
        with suppress(SandboxFault):  # what an episode said stands, even if its sandbox broke on the way out
            await sandbox.close()


async def play(
    world: World,
    policy: Policy,
    tasks: Sequence[Task],
    attempts: int,
    budget: Budget,
    reward: RewardFunction,
    label: str,
    seed: int,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
) -> list[Group]:
    """All attempts at all tasks under the policy as it is, in the order of `tasks`.

    Ids are `label/position/attempt`, so `play(..., [a, b], attempts=2, label="rft")` makes `rft/0/0 rft/0/1 rft/1/0 rft/1/1`.
    """
    items = [
        Attempt(task, f"{label}/{position}/{number}", int(digest(f"{seed} {label} {position} {number}")[:15], 16))
        for position, task in enumerate(tasks)
        for number in range(attempts)
    ]
    done: dict[str, Rollout] = {}
    async for finished in world.executor.map(lambda item: attempt(world, policy, item, budget, reward), items):
        done[finished.trajectory.id] = finished
        on_rollout(finished)
    return [
        Group(tuple(done[item.id] for item in items[position * attempts : (position + 1) * attempts])) for position in range(len(tasks))
    ]


def learn(groups: Sequence[Group], algorithm: Algorithm, trainer: Trainer, plan: Plan, seed: int) -> list[Update]:
    """Optimiser steps over the groups that `select` keeps, `plan.epochs` passes in fresh orders.

    With a correction, metrics also tell what it `truncated` and `masked`; a minibatch of which it leaves nothing makes no step.
    """
    chosen_groups = algorithm.select(groups)
    units = by_group(chosen_groups, algorithm.estimator, algorithm.failures, algorithm.rescale)
    certify_samples([sample for unit in units for sample in unit], chosen_groups, lambda one: kept(one, algorithm.failures))
    units = _scored(units, algorithm, trainer, plan)
    if not algorithm.whole_groups:
        units = [[sample] for unit in units for sample in unit]
    chosen = [samples for epoch in range(plan.epochs) for samples in minibatches(units, plan.minibatch, seed + epoch)]
    plan.on_steps(len(chosen))
    updates: list[Update] = []
    for samples in chosen:
        left, shares = corrected(samples, algorithm.correction) if algorithm.correction else (samples, {})
        batch = pack(left, plan.pack, workers=plan.workers, aggregate=algorithm.aggregate)
        certify_batch(batch, left)
        if batch.trained:
            update = trainer.update(batch, algorithm.objective)
            updates.append(Update(update.version, {**update.metrics, **shares}))
    return updates


def _scored(units: Sequence[Sequence[Sample]], algorithm: Algorithm, trainer: Trainer, plan: Plan) -> list[list[Sample]]:
    """The same samples with the log-probabilities that the algorithm takes from elsewhere than the sampler."""
    samples = [sample for unit in units for sample in unit]
    if algorithm.old == "recomputed":
        own = scored(samples, trainer.logprobs, plan.pack, plan.workers)
        samples = [replace(sample, old=values) for sample, values in zip(samples, own, strict=True)]
    if algorithm.reference:
        other = scored(samples, algorithm.reference, plan.pack, plan.workers)
        samples = [replace(sample, reference=values) for sample, values in zip(samples, other, strict=True)]
    rest = iter(samples)
    return [[next(rest) for _ in unit] for unit in units]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One turn of the loop: what was rolled out, the updates it gave, and the seconds of `play` and `learn`."""

    groups: tuple[Group, ...]
    updates: tuple[Update, ...]
    usage: Mapping[str, float]


async def iterate(
    world: World,
    policy: TrainablePolicy,
    curriculum: Curriculum,
    trainer: Trainer,
    algorithm: Algorithm,
    plan: Plan,
    label: str,
    seed: int,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
) -> Iteration:
    """Draw, play, learn, then send the two signals upstream: weights to the policy, outcomes to the curriculum."""
    meter = Meter()
    groups = await play(world, policy, curriculum.draw(plan.tasks), plan.attempts, plan.budget, plan.reward, label, seed, on_rollout)
    meter.lap("play")
    certify(groups, Terms(world.journalled, frozenset({policy.version}), policy.spelling, policy.stops))
    updates = await asyncio.to_thread(learn, groups, algorithm, trainer, plan, seed)
    meter.lap("learn")
    for group in groups:
        curriculum.observe(group)
    if updates:
        policy.load(trainer.weights(), trainer.version)
    return Iteration(tuple(groups), tuple(updates), meter.usage(groups))


class Meter:
    """Core-seconds by phase, from the kernel's own counters.

    This process samples and trains; the sandboxes are everybody else's time, so another busy program on the machine counts as theirs.
    `tools` and `tests` share that time as their waiting times do.
    """

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), time.process_time(), _busy())]
        self._laps: dict[str, tuple[float, float, float]] = {}

    def lap(self, name: str) -> None:
        """End a phase: its wall, own CPU and whole machine's busy seconds are kept under `name`."""
        now, last = (time.monotonic(), time.process_time(), _busy()), self._marks[-1]
        self._laps[name] = (now[0] - last[0], now[1] - last[1], now[2] - last[2])
        self._marks.append(now)

    def usage(self, groups: Sequence[Group]) -> dict[str, float]:
        cores = len(os.sched_getaffinity(0))
        play, learn_ = self._laps["play"], self._laps.get("learn", (0.0, 0.0, 0.0))
        tools = sum(turn.observation.seconds for g in groups for r in g.rollouts for turn in r.trajectory.turns)
        tests = sum(r.verdict.seconds for g in groups for r in g.rollouts)
        outside = max(0.0, play[2] - play[1])
        wall = play[0] + learn_[0]
        busy = min(play[2] + learn_[2], cores * wall)
        return {
            "sampling": play[1],
            "tools": outside * tools / (tools + tests or 1.0),
            "tests": outside * tests / (tools + tests or 1.0),
            "training": learn_[1],
            "idle": cores * wall - busy,
            "wall": wall,
            "cores_busy": busy / (cores * wall or 1.0),
        }


def _busy() -> float:
    """Seconds that all cores of this machine have worked since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
