"""The scripted policy keeps its place across forks and ends with a fault."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from patchgrad.errors import PolicyFault
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.values import Action, Ids, Message, Sampling, ids


def turns(policy: ScriptedPolicy, session: str, count: int, limit: int = 100) -> tuple[Ids, list[Action]]:
    async def play() -> tuple[Ids, list[Action]]:
        stream, said = policy.encode([Message("user", "go")], None), list[Action]()
        for _ in range(count):
            said.append(await policy.act(session, stream, Sampling(limit, seed=0)))
            stream = ids(np.concatenate([stream, said[-1].token_ids, policy.encode([Message("user", "ok")], said[-1])]))
        return stream, said

    return asyncio.run(play())


def test_every_session_hears_the_script_and_its_end() -> None:
    policy = ScriptedPolicy(["ls", "catch é"])
    for session in ("a", "b"):
        assert [action.text for action in turns(policy, session, 2)[1]] == ["ls", "catch é"]
    with pytest.raises(PolicyFault, match="2 actions"):
        turns(policy, "a", 3)
    assert turns(policy, "a", 1)[1][0].text == "ls", "who asks again after the same stream hears the same"


def test_a_fork_goes_on_after_the_actions_in_its_stream() -> None:
    policy = ScriptedPolicy(lambda session, turn: f"{session} {turn}")
    stream, _ = turns(policy, "a", 2)
    assert asyncio.run(policy.act("fork", stream, Sampling(100, seed=0))).text == "fork 2"


def test_a_long_text_is_cut() -> None:
    _, said = turns(ScriptedPolicy(["a long text", "b"]), "a", 1, limit=6)
    assert (said[0].text, said[0].finish) == ("a long", "length")
