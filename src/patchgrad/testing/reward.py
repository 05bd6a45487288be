"""What every reward function must hold, as one function that its author runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from patchgrad.contracts import RewardFunction
from patchgrad.testing.examples import example_attempts
from patchgrad.values import Judgement, Reward

SIZE = Judgement("patch-size", 2.0, {"added": 1.0, "removed": 1.0, "files": 1.0})


def check_reward(reward: RewardFunction, judgements: Sequence[Judgement] = (SIZE,)) -> None:
    """Raises `AssertionError` for the first rule that a reward breaks; `judgements` are those that every example has been given.

    Every attempt has one, whether it submitted, ran into a limit or broke: a finite number whose named parts are finite and add up to it;
    it is a pure function, so that asked again, in another order, it says the same; and asking changes no attempt.
    """
    examples = example_attempts()
    before = [repr(one) for one in examples]
    first: list[Reward] = []
    for one in examples:
        said = reward(one.task, one.trajectory, one.verdict, tuple(judgements))
        assert isinstance(said, Reward), f"a reward function gives a Reward, not {said!r}"
        assert math.isfinite(said.value), f"a reward is finite: {said} for {one.trajectory.id}"
        assert said.parts, "a reward names its parts"
        assert all(name and math.isfinite(part) for name, part in said.parts.items()), f"parts have names and are finite: {said}"
        total = sum(said.parts.values())
        assert math.isclose(total, said.value, rel_tol=1e-9, abs_tol=1e-9), f"the parts of a reward add up to it: {said}"
        first.append(said)
    for one, said in reversed(list(zip(examples, first, strict=True))):
        again = reward(one.task, one.trajectory, one.verdict, list(judgements))
        assert again == said, f"a reward is a pure function: it said {said}, then {again}"
    assert [repr(one) for one in examples] == before, "a reward changes no attempt"
