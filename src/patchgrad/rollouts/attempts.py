"""Attempts, each in its own sandbox and graded in another: made anew, gone on with after an interruption, or forked from a turn of another.

tasks -> attempts -> (journal: what is known of it?) -> episode -> grade -> reward -> groups
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchgrad.contracts import Agent, Policy, Restart, RewardFunction
from patchgrad.errors import SandboxFault
from patchgrad.rollouts.budget import Budget
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.loop import rollout
from patchgrad.values import Ending, Group, Rollout, Segment, Start, Task, Trajectory, Turn, Verdict, digest, root_address

log = logging.getLogger(__name__)

REOPENED = 2  # times that an attempt goes on after its sandbox or its policy broke


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to be made. With a `prefix`, turns of the attempt `origin`, it is a fork: it goes on after them."""

    task: Task
    id: str
    seed: int
    prefix: tuple[Turn, ...] = ()
    origin: str = ""

    @property
    def beginning(self) -> str:
        """The address after which its own turns come."""
        return self.prefix[-1].address if self.prefix else root_address(self.task, self.id)


async def run_attempt(harness: Harness, policy: Policy, item: Attempt, budget: Budget, reward: RewardFunction) -> Rollout:
    """One attempt: an episode, with a sandbox of its own where it needs one, a grade in another sandbox, a reward.

    What the journal knows of it is not done again. Where its sandbox or its policy breaks, it goes on after its last turn, in a new one, at
    most `REOPENED` times. A sandbox that cannot be opened is a failed trajectory: data, not a crash.
    """
    started = time.monotonic()
    own, ending = _recalled(harness, policy, item)
    told = {"origin": item.origin, "replayed": len(item.prefix)}
    if ending is not None:
        segments = segments_of(harness.agent, item.task, (*item.prefix, *own))
        trajectory = Trajectory(item.id, item.task.id, segments, ending.stop, ending.submission, ending.seconds, **told)  # type: ignore[arg-type]
        return Rollout(item.task, trajectory, ending.verdict, reward(item.task, trajectory, ending.verdict))
    turns = (*item.prefix, *own)
    for _ in range(1 + REOPENED):
        trajectory = await _episode(harness, policy, item, budget, turns)
        if trajectory.stop != "failed":
            break
        turns = _whole(trajectory.turns) if harness.state else item.prefix
    trajectory = replace(trajectory, seconds=time.monotonic() - started, **told)  # type: ignore[arg-type]
    if trajectory.turns or trajectory.stop != "failed":
        verdict = await _graded(harness, item.task, trajectory.submission)
    else:
        verdict = Verdict(item.task.id, "", (), (), fault="its sandbox could not be opened, or broke before the first turn")
    done = Rollout(item.task, trajectory, verdict, reward(item.task, trajectory, verdict))
    if not done.broken:
        last = trajectory.turns[-1].address if trajectory.turns else item.beginning
        harness.on_ending(item.id, Ending(last, trajectory.stop, trajectory.submission, verdict, trajectory.seconds))
    return done


async def _graded(harness: Harness, task: Task, submission: str) -> Verdict:
    """A sandbox that breaks while it judges is no judgement: another one is asked."""
    verdict = await harness.grade(task, submission)
    for _ in range(REOPENED):
        if verdict.fault is None:
            break
        verdict = await harness.grade(task, submission)
    return verdict


def _recalled(harness: Harness, policy: Policy, item: Attempt) -> tuple[tuple[Turn, ...], Ending | None]:
    """What is known of an attempt under this very policy; an earlier version's turns are another attempt's."""
    turns, ending = harness.recall(item.id, item.beginning)
    if harness.state is None or any(turn.action.version != policy.version for turn in turns):
        return (), None
    if ending is not None:
        return turns, ending
    return tuple(itertools.takewhile(lambda turn: turn.action.origin is not None, _whole(turns))), None  # else an older version's, unproved


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


async def _episode(harness: Harness, policy: Policy, item: Attempt, budget: Budget, turns: tuple[Turn, ...]) -> Trajectory:
    """The rest of an attempt after these turns, in a sandbox of its own."""
    segments = segments_of(harness.agent, item.task, turns)
    try:
        base = await harness.commit_of(item.task) if turns else ""
        state = harness.state(turns[-1].state, turns[-1].observation.tool_state.directory) if turns and harness.state else None
    except SandboxFault as fault:
        log.warning("%s: %s", item.id, fault)
        return Trajectory(item.id, item.task.id, segments, "failed", "")
    return await rollout(
        item.task,
        harness.agent,
        policy,
        harness.sandboxes,
        budget,
        attempt_id=item.id,
        seed=item.seed,
        on_turn=lambda turn: harness.on_turn(item.id, turn),
        on_state=harness.on_state,
        sampling=harness.sampling,
        history=segments,
        state=state,
        base=base,
        answers=harness.answers,
    )


def from_the_beginning(_: Task) -> Start:
    """Where attempts begin unless something else is said."""
    return Start()


async def collect_groups(
    harness: Harness,
    policy: Policy,
    tasks: Sequence[Task],
    attempts: int,
    budget: Budget,
    reward: RewardFunction,
    label: str,
    seed: int,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
    start: Callable[[Task], Start] = from_the_beginning,
) -> list[Group]:
    """All attempts at all tasks under the policy as it is, in the order of `tasks`; those at a task begin where `start` says.

    Ids are `label/position/attempt`, so `play(..., [a, b], attempts=2, label="rft")` makes `rft/0/0 rft/0/1 rft/1/0 rft/1/1`.
    """
    begun = [start(task) for task in tasks]
    items = [
        Attempt(
            task,
            f"{label}/{position}/{number}",
            derive_seed(seed, f"{label} {position} {number}"),
            begun[position].prefix,
            begun[position].origin,
        )
        for position, task in enumerate(tasks)
        for number in range(attempts)
    ]
    done = await run_attempts(harness, policy, items, budget, reward, on_rollout)
    return [Group(tuple(done[position * attempts : (position + 1) * attempts])) for position in range(len(tasks))]


def derive_seed(seed: int, name: str) -> int:
    """The seed of what goes by this name in a run."""
    return int(digest(f"{seed} {name}")[:15], 16)


async def run_attempts(
    harness: Harness,
    policy: Policy,
    items: Sequence[Attempt],
    budget: Budget,
    reward: RewardFunction,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
) -> list[Rollout]:
    """These attempts, as many at once as the harness's executor takes, in their order."""
    done: dict[str, Rollout] = {}
    async for finished in harness.executor.map(lambda item: run_attempt(harness, policy, item, budget, reward), items):
        done[finished.trajectory.id] = finished
        on_rollout(finished)
    return [done[item.id] for item in items]
