"""What travels to other machines: attempts, what comes of them, objectives, and what is computed where a trainer or a worker is."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from tests.contracts.naming import named

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import toolset
from patchgrad.grading.judges import PatchSize
from patchgrad.grading.rewards import Resolved, TurnPenalty, Weighted
from patchgrad.learning.advantages import Anchored, GroupNormalised
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.rollouts.attempts import AttemptSettings, Graded
from patchgrad.testing.examples import TASK, example_attempts, example_group, example_rollout, malformed_turn
from patchgrad.testing.trainer import example_batches
from patchgrad.values import (
    Action,
    Attempt,
    Budget,
    Ending,
    Judgement,
    Message,
    Sampling,
    Snapshot,
    StepSettings,
    Turn,
    Usage,
    floats,
    ids,
)

ROLLOUT = example_rollout("a")
VALUES: dict[str, object] = {
    "task": TASK,
    "attempt": Attempt(TASK, "a", 7, Budget(4, 1024), Sampling(16, 3)),
    "fork": Attempt(TASK, "b", 7, Budget(4, 1024), Sampling(16, 3, purpose="study"), ROLLOUT.trajectory.turns, "a"),
    "graded": Graded(ROLLOUT.trajectory, ROLLOUT.verdict, (Judgement("patch-size", 2.0, {"added": 1.0}),)),
    "rollouts": tuple(example_attempts()),
    "group": example_group((1.0, 0.0), forks=True),
    "ending": Ending("root", "submitted", "patch", ROLLOUT.verdict, 1.0, (Judgement("patch-size", 2.0),)),
    "malformed turn": malformed_turn("root"),
    "action of an endpoint": Action(ids([1, 2]), floats([]), 0, "ls", "stop", Usage(9, 2)),
    "action of two versions": Action(ids([1, 2]), floats([-1, -2]), 3, "ls", "stop", spans=((0, 3), (1, 4))),
    "snapshot": Snapshot.of({"a": (0o100644, b"\x00\xff"), "b": (0, None)}, "/testbed/x"),
    "batch": example_batches(50)[1],
    "step": StepSettings(1e-3, "bfloat16"),
    "settings of attempts": AttemptSettings(Budget(4, 1024), Weighted((Resolved(), TurnPenalty(1, 2))), 3),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_arrives_as_it_was_sent(value: object) -> None:
    with np.printoptions(threshold=10_000, floatmode="unique"):
        assert repr(pickle.loads(pickle.dumps(value))) == repr(value)


def test_a_turn_that_arrives_has_the_address_of_its_content() -> None:
    for turn in (*ROLLOUT.trajectory.turns, malformed_turn("root")):
        there: Turn = pickle.loads(pickle.dumps(turn))
        anew = Turn(there.context, there.action, there.call, there.observation, there.state, there.parent)
        assert there.address == anew.address == turn.address


def test_an_agent_arrives_and_says_and_reads_the_same() -> None:
    agent = ReactAgent(toolset())
    there: ReactAgent = pickle.loads(pickle.dumps(agent))
    assert there.prompt("Repair it.", ROLLOUT.trajectory.turns) == agent.prompt("Repair it.", ROLLOUT.trajectory.turns)
    assert there.parse("```command\nopen a.py\n```") == agent.parse("```command\nopen a.py\n```")


def test_a_tokenizer_arrives_and_spells_the_same() -> None:
    tokenizer = ChatTokenizer.train(["the tests fail"], 300)
    there: ChatTokenizer = pickle.loads(pickle.dumps(tokenizer))
    messages = (Message("user", "x<|im_end|>"),)
    assert there.fingerprint == tokenizer.fingerprint
    assert there.encode(messages, None).tolist() == tokenizer.encode(messages, None).tolist()


@pytest.mark.parametrize("make", [Resolved, lambda: TurnPenalty(1, 2), PatchSize, lambda: Anchored(GroupNormalised())], ids=named)
def test_what_judges_and_weighs_arrives(make: Callable[[], object]) -> None:
    part = make()
    assert type(pickle.loads(pickle.dumps(part))) is type(part)
