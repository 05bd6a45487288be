"""Attempts, many at a time: made anew, gone on with after an interruption, or forked from a turn of another.

tasks -> attempts -> (journal: what is known of it?) -> turns -> verdict -> judgements -> reward -> groups
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchgrad.contracts import Policy, RewardFunction
from patchgrad.errors import ClusterFault, ConfigError, SandboxFault
from patchgrad.rollouts.conversations import goes_on, segments_of, streams
from patchgrad.rollouts.harness import Harness, Workbench
from patchgrad.rollouts.loop import rolled
from patchgrad.rollouts.ownership import REOPENED, judged, works
from patchgrad.values import (
    Attempt,
    Budget,
    Ending,
    Group,
    Judgement,
    Rollout,
    Sampling,
    Start,
    Task,
    Trajectory,
    Turn,
    Verdict,
    digest,
)
from patchgrad.waiting import waiting_for

NEUTRAL = Sampling(max_tokens=1, seed=0)


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """How attempts are made and what they are worth; seed and length of `sampling` are replaced at every action.

    Attempts that began under the version `since`, and were interrupted, go on with what was drawn from then on; where none is said, with
    what the policy as it is has drawn.
    """

    budget: Budget
    reward: RewardFunction
    seed: int
    sampling: Sampling = NEUTRAL
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Graded:
    """A finished attempt with what was found of it."""

    trajectory: Trajectory
    verdict: Verdict
    judgements: tuple[Judgement, ...] = ()


async def run_attempt(shared: tuple[Workbench, Policy], attempt: Attempt) -> Graded:
    """One attempt: its turns, and a verdict from another sandbox.

    What the journal knows of it is not done again. Where its sandbox or its policy breaks, it goes on after its last turn, in a new one, at
    most `REOPENED` times; once more where it is the attempt that breaks its sandbox (`ownership`), which then loses it. A sandbox that
    cannot be opened is a failed trajectory: data, not a crash.
    """
    (bench, policy), began = shared, time.monotonic()
    if attempt.prefix and not goes_on(bench.agent):
        raise ConfigError("Attempts of this agent begin at their first turn: it is a program that runs inside the sandbox.")
    own, ending = await _recalled(bench, policy, attempt)
    if ending is not None:
        turns = (*attempt.prefix, *own)
        segments = streams(turns, ending.begun) if ending.begun else segments_of(bench.agent, attempt.task, turns)
        done = Trajectory(
            attempt.id,
            attempt.task.id,
            segments,
            ending.stop,
            ending.submission,
            ending.seconds,
            attempt.origin,
            len(attempt.prefix),
            ending.asides,
        )
        return Graded(done, ending.verdict, ending.judgements)
    trajectory = await _rolled(bench, policy, attempt, (*attempt.prefix, *own), began)
    graded = await _graded(bench, attempt.task, trajectory)
    if graded.verdict.fault is None and trajectory.stop != "failed":
        last = trajectory.turns[-1].address if trajectory.turns else attempt.root
        begun = tuple(itertools.accumulate(len(segment.turns) for segment in trajectory.segments[:-1]))
        told = (trajectory.stop, trajectory.submission, graded.verdict, trajectory.seconds, graded.judgements)
        ending = Ending(last, *told, begun, trajectory.asides)
        await bench.journal.ending(attempt.id, ending)
    return graded


def kin(item: object) -> str:
    """Attempts of one kin ask the same of their sandboxes: those at one task, or at others in the same files. Other items have none."""
    return item.task.environment_digest() if isinstance(item, Attempt) else ""


def given_up(attempt: object) -> Graded:
    """What becomes of an attempt that ended every machine it was made on: it failed, and is not trained on.

    Raises `ClusterFault` for another item, which nothing can stand for.
    """
    if not isinstance(attempt, Attempt):
        raise ClusterFault("A part of the work ended every machine that it was done on; run it without a cluster to see why.")
    fault = "each machine that it was made on was lost"
    nothing = Trajectory(attempt.id, attempt.task.id, (), "failed", "", 0.0, attempt.origin)
    return Graded(nothing, Verdict(attempt.task.id, "", (), (), fault=fault))


async def _rolled(bench: Workbench, policy: Policy, attempt: Attempt, turns: tuple[Turn, ...], began: float) -> Trajectory:
    """The attempt from these turns on, in as many sandboxes as it takes."""
    for number in range(2 + REOPENED):
        by_agent = number > REOPENED
        done = await rolled(bench, policy, attempt, turns, began, by_agent)
        if done.trajectory.stop != "failed" or by_agent:
            break
        suspect = isinstance(done.fault, SandboxFault) and bool(done.trajectory.turns)
        if number == REOPENED and not (suspect and await works(bench, attempt.task)):
            break
        turns = _whole(done.trajectory.turns) if bench.journal.keeps and goes_on(bench.agent) else attempt.prefix
    return done.trajectory


async def _graded(bench: Workbench, task: Task, trajectory: Trajectory) -> Graded:
    if not trajectory.turns and trajectory.stop == "failed":
        fault = "its sandbox could not be opened, or broke before the first turn"
        return Graded(trajectory, Verdict(task.id, "", (), (), fault=fault))
    with waiting_for("tests"):
        verdict = await judged(bench, task, trajectory.submission)
    if verdict.fault is not None or trajectory.stop == "failed":
        return Graded(trajectory, verdict)
    try:
        with waiting_for("judges"):
            judgements = tuple([await judge(task, trajectory, verdict) for judge in bench.judges])
    except SandboxFault as fault:
        return Graded(trajectory, Verdict(task.id, verdict.patch, (), (), fault=f"a judge could not judge: {fault}"))
    return Graded(trajectory, verdict, judgements)


async def _recalled(bench: Workbench, policy: Policy, attempt: Attempt) -> tuple[tuple[Turn, ...], Ending | None]:
    """What is known of an attempt, as far as it was drawn under the versions that it may have been; other turns are another attempt's."""
    turns, ending = await bench.journal.recall(attempt.id, attempt.root)
    first, last = attempt.versions or (policy.version, policy.version)
    known = tuple(itertools.takewhile(lambda turn: first <= turn.action.version and turn.action.newest <= last, turns))
    if ending is not None and len(known) == len(turns):
        return known, ending
    if not goes_on(bench.agent):
        return (), None
    return tuple(itertools.takewhile(lambda turn: turn.action.origin is not None, _whole(known))), None  # else an older run's, unproved


def _whole(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns before the one in which infrastructure broke."""
    return tuple(itertools.takewhile(lambda turn: turn.observation.failure != "infrastructure", turns))


def from_the_beginning(_: Task) -> Start:
    """Where attempts begin unless something else is said."""
    return Start()


async def collect_groups(
    harness: Harness,
    policy: Policy,
    tasks: Sequence[Task],
    attempts: int,
    settings: AttemptSettings,
    label: str,
    start: Callable[[Task], Start] = from_the_beginning,
) -> list[Group]:
    """So many attempts at each task under the policy as it is, in the order of `tasks`; those at a task begin where `start` says.

    Ids are `label/position/attempt`, so `collect_groups(..., [a, b], attempts=2, label="rft")` makes `rft/0/0 rft/0/1 rft/1/0 rft/1/1`.
    """
    begun = [start(task) for task in tasks]
    items = [
        Attempt(
            task,
            f"{label}/{position}/{number}",
            derive_seed(settings.seed, f"{label} {position} {number}"),
            settings.budget,
            settings.sampling,
            begun[position].prefix,
            begun[position].origin,
            None if settings.since is None else (settings.since, policy.version),
        )
        for position, task in enumerate(tasks)
        for number in range(attempts)
    ]
    done = await run_attempts(harness, policy, items, settings.reward)
    return [Group(tuple(done[position * attempts : (position + 1) * attempts])) for position in range(len(tasks))]


def group_name(rollout: Rollout) -> str:
    """What names the group of an attempt in its run: `rft/0/2` is of `rft/0/2/0` and of `rft/0/2/1`."""
    return rollout.trajectory.id.rpartition("/")[0]


def grouped(rollouts: Sequence[Rollout]) -> dict[str, Group]:
    """Attempts of an iteration, in their order, as groups by their names."""
    return {name: Group(tuple(found)) for name, found in itertools.groupby(rollouts, group_name)}


def derive_seed(seed: int, name: str) -> int:
    """The seed of what goes by this name in a run."""
    return int(digest(f"{seed} {name}")[:15], 16)


async def run_attempts(harness: Harness, policy: Policy, items: Sequence[Attempt], reward: RewardFunction) -> list[Rollout]:
    """These attempts, as many at once as the executor takes, in their order. Rewards are computed here, wherever attempts are made."""
    tasks, done = {item.id: item.task for item in items}, dict[str, Rollout]()
    async for graded in harness.executor.map(f"{__name__}:run_attempt", (harness.workbench, policy), items):
        rollout = rewarded(tasks[graded.trajectory.id], graded, reward)
        done[rollout.trajectory.id] = rollout
        harness.seen(rollout)
    return [done[item.id] for item in items]


def rewarded(task: Task, graded: Graded, reward: RewardFunction) -> Rollout:
    """The attempt with what it is worth."""
    trajectory, verdict, judgements = graded.trajectory, graded.verdict, graded.judgements
    return Rollout(task, trajectory, verdict, reward(task, trajectory, verdict, judgements), judgements)
