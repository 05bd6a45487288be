"""Attempts that go on before the turns that were most in doubt, and attempts that begin after turns of others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.attempts import attempt
from tests.learning.test_provenance import BUDGET, Bent, Drawing, harness, tasks, worth

from patchgrad.learning.advantages import Branched
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.branching import Forking, doubtful
from patchgrad.learning.credit import by_group
from patchgrad.learning.failures import KEEP_ALL
from patchgrad.learning.loop import Iteration, Learner, iterate
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.provenance import Requirements, violation
from patchgrad.learning.selection import sound
from patchgrad.policies.channel import DirectChannel
from patchgrad.rollouts.attempts import AttemptSettings
from patchgrad.store import Run
from patchgrad.trainers.schedules import constant
from patchgrad.values import Group, Rollout, Segment, Start, Task, Turn, floats

ALGORITHM = Algorithm(sound, Branched(), Clipped(), KEEP_ALL)
SIZES = IterationSizes(2, 2, minibatch=3, micro_batch_tokens=2000, schedule=lambda steps: constant(1e-3))
SETTINGS = AttemptSettings(BUDGET, worth, seed=1)


def with_doubts(name: str, reward: float, *least: float) -> Rollout:
    """An attempt of turns whose least likely tokens had these probabilities."""
    made = attempt(name, [[(1, 2)] * len(least)], reward)
    turns: list[Turn] = []
    for turn, chance in zip(made.trajectory.turns, least, strict=True):
        action = replace(turn.action, logprobs=floats([-0.01, np.log(chance)]))
        turns.append(replace(turn, action=action, parent=turns[-1].address if turns else turn.parent))
    return replace(made, trajectory=replace(made.trajectory, segments=(Segment(tuple(turns)),)))


def test_the_turn_of_each_attempt_that_was_most_in_doubt_is_forked_before_and_never_the_first() -> None:
    group = Group((with_doubts("a/0", 1, 0.01, 0.2, 0.4), with_doubts("a/1", 0, 0.1, 0.9, 0.15), with_doubts("a/2", 0, 0.001)))
    assert [(one.trajectory.id, place) for one, place in doubtful(group, 3)] == [("a/1", 2), ("a/0", 1)]
    assert [(one.trajectory.id, place) for one, place in doubtful(group, 1)] == [("a/1", 2)]


def test_a_group_whose_attempts_ended_alike_is_not_forked_unless_rewards_are_asked_for() -> None:
    group = Group((with_doubts("a/0", 0.0, 0.5, 0.5), with_doubts("a/1", -0.2, 0.5, 0.5)))
    assert doubtful(group, 3) == []
    assert len(doubtful(group, 3, "reward")) == 2


def learnt(run: Run, folder: Path, sizes: IterationSizes, label: str) -> Iteration:
    policy = Bent()
    learner = Learner(policy, policy.trainer, DirectChannel((policy,)), Drawing(tasks(folder)))
    return asyncio.run(iterate(harness(run), learner, ALGORITHM, sizes, SETTINGS, label))


def test_an_iteration_learns_from_its_forks_and_not_from_what_they_replay(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        done = learnt(run, tmp_path, replace(SIZES, forking=Forking(1, 2, "reward")), "rl/0")
        assert done.learned.updates
        for group in done.groups:
            begun, forks = group.rollouts[:2], group.rollouts[2:]
            assert len(forks) == 2
            assert group.whole == begun, "only these say how hard the task is"
            for one in forks:
                source = next(rollout for rollout in begun if rollout.trajectory.id == one.trajectory.origin)
                place = one.trajectory.replayed
                assert one.trajectory.id.startswith(f"{source.trajectory.id}+{place}.")
                assert [t.address for t in one.trajectory.turns[:place]] == [t.address for t in source.trajectory.turns[:place]]
                assert violation(one, Requirements(run.journal.holds, frozenset({0}))) is None
            samples = [sample for unit in by_group([group], Branched()) for sample in unit if "+" in sample.attempt]
            for sample in samples:
                replayed = next(one.trajectory.replayed for one in forks if one.trajectory.id == sample.attempt)
                first = sum(len(turn.action.token_ids) for turn in sample.segment.turns[:replayed])
                assert not sample.trained[:first].any()
                assert sample.trained[first:].any()
        again = learnt(run, tmp_path, replace(SIZES, forking=Forking(1, 2, "reward")), "rl/0")
        assert [r.trajectory.turns[-1].address for g in again.groups for r in g.rollouts] == [
            r.trajectory.turns[-1].address for g in done.groups for r in g.rollouts
        ], "known attempts and forks are not made again"


def test_attempts_begin_where_they_are_told_and_forks_of_them_know_the_first_of_their_line(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        first = learnt(run, tmp_path, SIZES, "rl/0").groups[0].rollouts[0]
        prefix = first.trajectory.turns[:1]

        def start(task: Task) -> Start:
            return Start(prefix, first.trajectory.id) if task.id == first.task.id else Start()

        done = learnt(run, tmp_path, replace(SIZES, start=start, forking=Forking(1, 1, "reward")), "rl/1")
        told, other = done.groups
        assert [r.trajectory.replayed for r in told.rollouts] == [1, 1, 2]
        assert {r.trajectory.origin for r in told.rollouts} == {first.trajectory.id}
        assert told.whole == ()
        assert [r.trajectory.replayed for r in other.rollouts[:2]] == [0, 0]
        assert done.learned.updates
