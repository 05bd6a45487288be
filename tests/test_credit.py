"""Who teaches, how much, and that a chain that does not verify is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from patchgrad.credit import KEEP_ALL, MASK_FORMAT_ERRORS, WITHHOLD_FROM_WASTE, assign, contrast, kinds, solved_only, sound, verify
from patchgrad.errors import CertificateError, ConfigError
from patchgrad.values import (
    Action,
    Call,
    Checks,
    Failure,
    Floats,
    Group,
    Malformed,
    Observation,
    Place,
    Repository,
    Reward,
    Rollout,
    Segment,
    Stop,
    Task,
    TestOutcome,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
)


def task(name: str = "t") -> Task:
    return Task(name, "", Repository("archive", "", ""), Checks(("a",), ()))


def chain(*calls: Call | Malformed | Failure, token: int = 0) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for call in calls:
        failure: Failure | None = "malformed" if isinstance(call, Malformed) else call if isinstance(call, str) else None
        action = Action(ids([token, 7]), floats([-1.0, -2.0]), 0, "text", "stop")
        observation = Observation("", Place(), failure=failure)
        made = Call("shell", "") if isinstance(call, str) else call
        turns.append(Turn(ids([1, 2, 3]), action, made, observation, "s", turns[-1].address if turns else "genesis"))
    return tuple(turns)


OK = Call("shell", "ls")
NO = Malformed("no command", "?")


def rollout(
    solved: bool, reward: float | None = None, stop: Stop = "submitted", turns: tuple[Turn, ...] | None = None, of: str = "t"
) -> Rollout:
    turns = chain(OK, OK) if turns is None else turns
    verdict = Verdict(of, "", ("ran",), (TestOutcome("a", "fail_to_pass", "passed" if solved else "failed"),))
    trajectory = Trajectory("x", of, (Segment(turns),) if turns else (), stop, "")
    return Rollout(task(of), trajectory, verdict, Reward(float(solved) if reward is None else reward, {}))


def group(*rollouts: Rollout) -> Group:
    return Group(rollouts)


def by_reward(of: Group) -> list[Floats]:
    return [floats(np.full(sum(len(t.action.token_ids) for t in r.trajectory.turns), r.reward.value)) for r in of.rollouts]


def test_contrast_needs_both_outcomes() -> None:
    mixed, lost, won = group(rollout(True), rollout(False)), group(rollout(False, -1), rollout(False, 0)), group(rollout(True))
    assert contrast([mixed, lost, won]) == [mixed]
    assert contrast([mixed, lost, won], on="reward") == [mixed, lost]


def test_what_infrastructure_broke_is_dropped_before_anything_is_averaged() -> None:
    broken = rollout(False, stop="failed")
    fault = replace(rollout(False), verdict=Verdict("t", "", (), (), fault="gone"))
    empty = rollout(False, turns=())
    whole = group(rollout(True), broken, fault, empty)
    (left,) = sound([whole, group(broken)])
    assert left.rollouts == whole.rollouts[:1]
    assert contrast([whole]) == []
    sizes: list[int] = []

    def counting(of: Group) -> list[Floats]:
        sizes.append(len(of.rollouts))
        return by_reward(of)

    assign([whole], counting, KEEP_ALL)
    assert sizes == [1]


def test_limits_reached_stay_as_examples() -> None:
    late = group(rollout(True), rollout(False, -1, stop="turn limit"))
    assert [sample.advantages[0] for sample in assign(contrast([late]), by_reward)] == [1, -1]


def test_solved_only_caps_tasks_over_groups_and_drops_twins() -> None:
    distinct = [rollout(True, turns=chain(OK, token=n)) for n in range(4)]
    groups = [group(*distinct[:2], rollout(False)), group(*distinct[2:]), group(rollout(True, of="u"))]
    assert [len(g.rollouts) for g in solved_only(groups, cap_per_task=3)] == [2, 1, 1]
    twins = group(rollout(True), rollout(True))
    assert len(solved_only([twins])[0].rollouts) == 1
    assert len(solved_only([twins], dedupe=False)[0].rollouts) == 2
    with pytest.raises(ConfigError):
        solved_only(groups, cap_per_task=0)


def test_masked_turns_are_context() -> None:
    turns = chain(OK, NO, "bad arguments", "timeout")
    (sample,) = assign([group(rollout(True, turns=turns))], by_reward, MASK_FORMAT_ERRORS)
    assert sample.keep.tolist() == [True, True, False, False, False, False, True, True]
    assert len(sample.segment.tokens()) == 20
    (sample,) = assign([group(rollout(True, turns=turns))], by_reward, KEEP_ALL)
    assert sample.keep.all()
    assert not sample.keep.flags.writeable
    with pytest.raises(ConfigError):
        assign([], by_reward, {"typo": "mask"})


def test_a_turn_that_did_nothing_is_never_rewarded_and_blamed_as_its_attempt_is() -> None:
    turns = chain(OK, NO, OK, "bad arguments", Call("shell", "cat a"))
    (won,) = assign([group(rollout(True, 2.0, turns=turns))], by_reward, WITHHOLD_FROM_WASTE)
    assert won.advantages[::2].tolist() == [2.0, 0.0, 2.0, 0.0, 2.0]
    (lost,) = assign([group(rollout(False, -2.0, turns=turns))], by_reward, WITHHOLD_FROM_WASTE)
    assert lost.advantages[::2].tolist() == [-2.0] * 5
    assert won.keep.all()


def test_a_call_loops_where_it_was_made_before_in_the_same_state() -> None:
    edit, test = Call("replace", "a b"), Call("shell", "pytest")
    played = [(edit, "clean"), (edit, "clean"), (edit, "clean"), (test, "clean"), (edit, "edited"), (test, "edited"), (test, "edited")]
    turns = tuple(replace(turn, state=state) for turn, (_, state) in zip(chain(*(call for call, _ in played)), played, strict=True))
    trajectory = Trajectory("x", "t", (Segment(turns[:3]), Segment(turns[3:])), "submitted", "")
    # the second edit is the first one from what it left behind; the sixth test is the first of the edited files
    assert kinds(trajectory) == [None, None, "looping", None, "looping", None, "looping"]
    assert kinds(replace(trajectory, segments=(Segment(chain(NO, NO)),))) == ["no command", "no command"]


def test_segments_share_out_the_advantages_in_order() -> None:
    turns = chain(OK, NO, OK)
    base = rollout(True, turns=turns)
    split = replace(base, trajectory=replace(base.trajectory, segments=(Segment(turns[:1]), Segment(turns[1:]))))

    def counting(of: Group) -> list[Floats]:
        return [floats(np.arange(6)) for _ in of.rollouts]

    first, second = assign([group(split)], counting)
    assert (first.advantages.tolist(), second.advantages.tolist()) == ([0, 1], [2, 3, 4, 5])
    assert [len(s.segment.turns) for s in assign([group(split)], counting, {"no command": "mask"})] == [1, 2]
    with pytest.raises(ConfigError):
        assign([group(split)], lambda of: [floats([1.0])])


def test_samples_that_teach_nothing_are_dropped() -> None:
    assert assign([group(rollout(False, 0.0))], by_reward) == []
    assert assign([group(rollout(True, turns=chain(NO)))], by_reward, MASK_FORMAT_ERRORS) == []


def test_a_chain_that_does_not_verify_is_refused() -> None:
    turns = chain(OK, OK, OK)
    good = rollout(True, turns=turns)
    verify(good.trajectory)
    for forged in (
        (turns[0], turns[2]),
        (replace(turns[0], action=replace(turns[0].action, version=1)), *turns[1:]),
        (replace(turns[0], context=ids([1])), *turns[1:]),
        (turns[0], replace(turns[1], parent="elsewhere"), turns[2]),
        (replace(turns[0], action=replace(turns[0].action, logprobs=floats([0.0]))),),
    ):
        with pytest.raises(CertificateError):
            assign([group(rollout(True, turns=forged))], by_reward)
    stale = replace(turns[0])
    assert stale.address == turns[1].parent
    object.__setattr__(stale, "context", ids([9]))
    with pytest.raises(CertificateError):
        verify(rollout(True, turns=(stale, *turns[1:])).trajectory)
