"""Who teaches, how much, and that a chain that does not verify is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from patchgrad.errors import ConfigError, ProvenanceError
from patchgrad.learning.advantages import MeanOnly
from patchgrad.learning.credit import assign, by_group, weighted
from patchgrad.learning.failures import KEEP_ALL, MASK_FORMAT_ERRORS, PENALTY, FailurePolicy, failed, kept, kinds
from patchgrad.learning.objectives.corrections import MaskGeometric, MaskToken, Together, TruncateToken
from patchgrad.learning.provenance import violation
from patchgrad.learning.selection import contrast, solved_only, sound
from patchgrad.runs.algorithms import reprompted
from patchgrad.values import (
    Action,
    Bools,
    Call,
    Checks,
    Failure,
    Floats,
    Group,
    Malformed,
    Observation,
    Repository,
    Reward,
    Rollout,
    ScoredSample,
    Segment,
    Stop,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    WeightedSample,
    floats,
    ids,
)

WITHHOLD: FailurePolicy = dict.fromkeys(("no command", "truncated", "several commands", "bad arguments", "looping"), "withhold")


def task(name: str = "t") -> Task:
    return Task(name, "", Repository("archive", "", ""), Checks(("a",), ()))


def chain(*calls: Call | Malformed | Failure, token: int = 0) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for call in calls:
        failure: Failure | None = "malformed" if isinstance(call, Malformed) else call if isinstance(call, str) else None
        action = Action(ids([token, 7]), floats([-1.0, -2.0]), 0, "text", "stop")
        observation = Observation("", ToolState(), failure=failure)
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


def test_attempts_at_a_limit_are_masked_where_asked_and_still_count_in_their_group() -> None:
    mixed = group(rollout(True), rollout(False, stop="turn limit"), rollout(False))
    kept, left = assign([mixed], MeanOnly()), assign([mixed], MeanOnly(), {"overlong": "mask"})
    assert [sample.advantages.tolist() for sample in left] == [kept[0].advantages.tolist(), kept[2].advantages.tolist()]


def test_of_two_treatments_of_a_turn_the_stricter_one_counts() -> None:
    late = rollout(True, stop="turn limit", turns=chain(OK, NO)).trajectory
    of_ok, of_no = (len(turn.action.token_ids) for turn in late.turns)
    assert kept(late, {"no command": "mask", "overlong": "withhold"}).tolist() == [True] * of_ok + [False] * of_no
    assert not kept(late, {"no command": "withhold", "overlong": "mask"}).any()
    assert not kept(late, {"no command": "drop", "overlong": "penalise"}).any()


def test_what_is_told_again_after_another_prompt_has_the_same_actions_in_a_chain_of_its_own() -> None:
    first, second, third = chain(OK, NO, OK)
    whole = rollout(True)
    whole = replace(whole, trajectory=replace(whole.trajectory, segments=(Segment((first,)), Segment((second, third)))))
    (other,) = reprompted(group(whole), ids([90, 91, 92])).rollouts
    assert violation(other) is None
    before, after = whole.trajectory.turns, other.trajectory.turns
    assert after[0].context.tolist() == [90, 91, 92]
    assert [turn.context.tolist() for turn in after[1:]] == [turn.context.tolist() for turn in before[1:]]
    assert [turn.action for turn in after] == [turn.action for turn in before]
    assert after[-1].address != before[-1].address
    assert [len(segment.turns) for segment in other.trajectory.segments] == [len(s.turns) for s in whole.trajectory.segments]


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
    (won,) = assign([group(rollout(True, 2.0, turns=turns))], by_reward, WITHHOLD)
    assert won.advantages[::2].tolist() == [2.0, 0.0, 2.0, 0.0, 2.0]
    (lost,) = assign([group(rollout(False, -2.0, turns=turns))], by_reward, WITHHOLD)
    assert lost.advantages[::2].tolist() == [-2.0] * 5
    assert won.keep.all()


def test_each_way_to_fail_has_a_name() -> None:
    cut, missing, again = (chain(one)[0] for one in (NO, OK, OK))
    cut = replace(cut, action=replace(cut.action, finish="length"))
    whole = replace(missing, action=cut.action)
    missing, again = (replace(one, observation=replace(one.observation, failure="unknown tool")) for one in (missing, again))
    several = chain(Malformed("several commands", "?"))[0]
    told = kinds(rollout(True, turns=(cut, chain(NO)[0], several, missing, again, *chain("out of memory"))).trajectory)
    assert told == ["truncated", "no command", "several commands", "unknown tool", "looping", "out of memory"]
    assert kinds(rollout(True, turns=(whole,)).trajectory) == [None], "a command that ended before its tokens did is whole"


def test_a_turn_that_is_penalised_is_blamed_whatever_became_of_its_attempt() -> None:
    turns = chain(OK, NO, OK)
    (won,) = assign([group(rollout(True, 2.0, turns=turns))], by_reward, {"no command": "penalise"})
    assert sorted(set(won.advantages.tolist())) == [-PENALTY, 2.0]
    (lost,) = assign([group(rollout(False, -2.0, turns=turns))], by_reward, {"no command": "penalise"})
    assert set(lost.advantages.tolist()) == {-2.0}
    (less,) = assign([group(rollout(True, 2.0, turns=turns))], by_reward, {"no command": "penalise"}, penalty=0.25)
    assert sorted(set(less.advantages.tolist())) == [-0.25, 2.0]


def test_only_choices_are_blamed_and_certainty_is_still_rewarded() -> None:
    turns: list[Turn] = []
    for turn in chain(OK, OK, OK):
        action = replace(turn.action, logprobs=floats([-0.01, -0.7]))
        turns.append(replace(turn, action=action, parent=turns[-1].address if turns else turn.parent))

    def earned(advantage: float, failures: FailurePolicy = KEEP_ALL) -> list[float]:
        (sample,) = assign([group(rollout(False, advantage, turns=tuple(turns)))], by_reward, failures, confident_above=0.9)
        return list(sample.advantages.tolist())

    assert earned(-1.0) == [0.0, -1.0] * 3
    assert earned(1.0) == [1.0, 1.0] * 3
    assert earned(1.0, {"looping": "penalise"}) == [1.0, 1.0, 1.0, 1.0, 0.0, -PENALTY], "a loop is blamed for its choices alone"


def test_an_attempt_with_a_turn_that_drops_it_is_not_trained_and_still_counts_in_its_group() -> None:
    mixed = group(rollout(True, 1.0, turns=chain(OK, NO, OK)), rollout(False, 0.0))
    (left,) = assign([mixed], MeanOnly(), {"no command": "drop"})
    assert left.attempt == mixed.rollouts[1].trajectory.id
    assert set(left.advantages.tolist()) == {-0.5}


def test_a_call_loops_where_it_was_made_before_in_the_same_state() -> None:
    edit, test = Call("replace", "a b"), Call("shell", "pytest")
    played = [(edit, "clean"), (edit, "clean"), (edit, "clean"), (test, "clean"), (edit, "edited"), (test, "edited"), (test, "edited")]
    turns = tuple(replace(turn, state=state) for turn, (_, state) in zip(chain(*(call for call, _ in played)), played, strict=True))
    trajectory = Trajectory("x", "t", (Segment(turns[:3]), Segment(turns[3:])), "submitted", "")
    # the second edit is the first one from what it left behind; the sixth test is the first of the edited files
    assert kinds(trajectory) == [None, "undone", "looping", None, "looping", None, "looping"]
    assert kinds(replace(trajectory, segments=(Segment(chain(NO, NO)),))) == ["no command", "no command"]


def test_an_edit_that_was_taken_back_is_undone_and_is_context_where_a_policy_of_failures_says_so() -> None:
    calls = (Call("open", "a.py"), Call("replace", "1 2"), Call("replace", "2 3"), Call("submit", ""))
    played = zip(chain(*calls), ("a", "a", "b", "b"), strict=True)  # it opens, tries in vain, repairs, submits
    turns, parent = list[Turn](), ""
    for turn, state in played:
        turns.append(replace(turn, state=state, parent=parent))
        parent = turns[-1].address
    attempt = rollout(True, turns=tuple(turns))
    assert kinds(attempt.trajectory) == [None, "undone", None, None]
    assert failed([attempt.trajectory]) == {}, "who tries has to be wrong at times"
    for policy, trained in (({"undone": "mask"}, [True, False, True, True]), (KEEP_ALL, [True] * 4)):
        (sample,) = assign([group(attempt)], by_reward, policy)  # type: ignore[arg-type]
        assert sample.keep.reshape(4, -1).all(1).tolist() == trained


def test_failures_are_counted_by_kind() -> None:
    attempts = [rollout(True, turns=chain(OK, NO, OK)).trajectory, rollout(True, turns=chain(NO, NO)).trajectory]
    assert failed(attempts) == {"no command": 3}
    assert failed([replace(attempts[1], replayed=1)]) == {"no command": 1}
    assert failed([]) == {}


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


def test_a_sample_knows_its_attempt_and_its_group() -> None:
    first, second = (replace(rollout(True), trajectory=replace(rollout(True).trajectory, id=name)) for name in ("0/0", "0/1"))
    found = assign([group(first, second)], by_reward)
    assert [(sample.attempt, sample.group) for sample in found] == [("0/0", "0/0"), ("0/1", "0/0")]
    scored = [ScoredSample.as_sampled(sample) for sample in found]
    assert all(one.old.tolist() == one.reference.tolist() == one.sample.segment.logprobs().tolist() for one in scored)
    assert all(WeightedSample.alike(one).weights.tolist() == [1.0] * 4 for one in scored)


def test_a_group_that_teaches_nothing_has_its_place_in_order() -> None:
    units = by_group([group(rollout(True)), group(rollout(False)), group(rollout(False, stop="failed")), group(rollout(True))], by_reward)
    assert [len(unit) for unit in units] == [1, 0, 0, 1]


def test_advantages_are_rescaled_over_all_groups_before_anything_is_left_out() -> None:
    seen: list[tuple[list[float], list[bool]]] = []

    def baseline_offset(advantages: Sequence[Floats], kept: Sequence[Bools]) -> list[Floats]:
        seen.extend((part.tolist(), keep.tolist()) for part, keep in zip(advantages, kept, strict=True))
        return [floats(part - 0.5) for part in advantages]

    mixed = [group(rollout(True, turns=chain(OK, NO))), group(rollout(False))]
    samples = assign(mixed, by_reward, {"no command": "mask"}, baseline_offset)
    assert seen == [([1.0] * 4, [True, True, False, False]), ([0.0] * 4, [True] * 4)]
    assert [sample.advantages.tolist() for sample in samples] == [[0.5] * 4, [-0.5] * 4]  # the second taught nothing before
    (withheld, _) = assign(mixed, by_reward, WITHHOLD, baseline_offset)
    assert withheld.advantages.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_a_correction_weighs_and_masks_what_is_trained() -> None:
    (whole,) = assign([group(rollout(True, turns=chain(OK, NO, OK)))], by_reward, MASK_FORMAT_ERRORS)
    scored = ScoredSample.as_sampled(whole)
    moved = [replace(scored, old=floats(scored.old + np.log([0.5, 1.0, 9.0, 9.0, 4.0, 1.5], dtype=np.float32)))]

    def some(ratios: Floats) -> tuple[Floats, Bools]:
        weights = np.exp(ratios)
        return floats(np.where(weights < 0.8, 0.0, np.minimum(weights, 2.0))), (weights < 0.8) | (weights > 2.0)

    (sample,), shares = weighted(moved, some)
    assert sample.weights.tolist() == pytest.approx([0.0, 1.0, 1.0, 1.0, 2.0, 1.5])
    assert sample.trained.tolist() == [False, True, False, False, True, True]
    assert shares == {"truncated": 0.25, "masked": 0.25}
    assert not sample.trained.flags.writeable
    assert weighted(moved, lambda ratios: (floats(0 * ratios), ratios > -99)) == ([], {"truncated": 0.0, "masked": 1.0})


def test_a_correction_with_ratios_of_one_is_no_correction() -> None:
    whole = [ScoredSample.as_sampled(sample) for sample in assign([group(rollout(True), rollout(False, -1.0))], by_reward)]
    found, shares = weighted(whole, Together((TruncateToken(), MaskToken(), MaskGeometric())))
    assert shares == {"truncated": 0.0, "masked": 0.0}
    for one, two in zip(map(WeightedSample.alike, whole), found, strict=True):
        assert (one.weights == two.weights).all()
        assert (one.trained == two.trained).all()
        assert one.scored is two.scored


def test_samples_that_teach_nothing_are_dropped() -> None:
    assert assign([group(rollout(False, 0.0))], by_reward) == []
    assert assign([group(rollout(True, turns=chain(NO)))], by_reward, MASK_FORMAT_ERRORS) == []


def test_a_chain_that_does_not_verify_is_refused() -> None:
    turns = chain(OK, OK, OK)
    good = rollout(True, turns=turns)
    assert violation(good) is None
    for forged in (
        (turns[0], turns[2]),
        (replace(turns[0], action=replace(turns[0].action, version=1)), *turns[1:]),
        (replace(turns[0], context=ids([1])), *turns[1:]),
        (turns[0], replace(turns[1], parent="elsewhere"), turns[2]),
        (replace(turns[0], action=replace(turns[0].action, logprobs=floats([0.0]))),),
    ):
        with pytest.raises(ProvenanceError):
            assign([group(rollout(True, turns=forged))], by_reward)
    stale = replace(turns[0])
    assert stale.address == turns[1].parent
    object.__setattr__(stale, "context", ids([9]))
    assert violation(rollout(True, turns=(stale, *turns[1:]))) == "chain"
