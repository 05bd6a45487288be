"""Every program of others against the contract."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from tests.agents.gateway.test_inside import small
from tests.agents.gateway.test_mini_swe_agent import agent, call
from tests.guests.shop import shop
from tests.rollouts.test_programs import Chat, Owner, attempt, bench

from patchgrad.agents.gateway import MiniSweAgent
from patchgrad.contracts import AttemptAccess, Extend, Finish, Program, Restart
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.rollouts.loop import rolled
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing import check_attempt_access, check_program
from patchgrad.values import Call, Malformed, Message, Turn

__all__ = ["agent"]  # the fixture


@pytest.mark.parametrize("prompts", ["full", "brief"])
def test_mini_swe_agent_keeps_the_contract(agent: MiniSweAgent, prompts: Literal["full", "brief"]) -> None:
    asyncio.run(check_program(replace(agent, prompts=prompts), [call("true"), call("false")], ["hm", "<tool_call>"]))


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_a_program_inside_the_sandbox_keeps_the_contract(tmp_path: Path, dialect: str) -> None:
    async def test() -> None:
        boxes, task = BwrapSandboxes(cells=1), shop(tmp_path)
        await check_program(small(dialect), [call("true"), call("false")], [], lambda: boxes.open(task))
        await boxes.close()

    asyncio.run(test())


def test_the_access_of_a_conversation_keeps_the_contract(tmp_path: Path) -> None:
    class Looking(Chat):
        async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
            await check_attempt_access(access, [Message("user", "hi")])
            return Finish("submitted")

    class Looker(Owner):
        def begin(self, instruction: str) -> Chat:
            return Looking(instruction, "", -1, 0.0, [])

    async def test() -> None:
        done = await rolled(bench(Looker()), ScriptedPolicy(lambda session, number: "hm"), attempt())
        assert done.trajectory.stop == "submitted"

    asyncio.run(test())


def test_a_program_of_the_users_keeps_the_contract() -> None:
    asyncio.run(check_program(Owner(), ["ls", "cat x"], ["", " "]))


@dataclass
class Counting(Owner):
    """Numbers its questions."""

    count: itertools.count[int] = field(default_factory=itertools.count)

    def begin(self, instruction: str) -> Chat:
        return Chat(instruction, f"{next(self.count)}", self.breaks_after, self.slow, self.closed)


class Forgetful(Chat):
    """Says something else when it is asked again."""

    asked = 0

    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
        self.asked += 1
        return Extend((Message("user", f"{self.instruction} {self.asked}"),))


@dataclass
class Asking(Owner):
    """Forgets what it has asked."""

    def begin(self, instruction: str) -> Chat:
        return Forgetful(instruction, "", self.breaks_after, self.slow, self.closed)


@dataclass
class Deaf(Owner):
    """Says the same whatever is to be done."""

    def begin(self, instruction: str) -> Chat:
        return super().begin("")


@dataclass
class Credulous(Owner):
    """Takes anything for a call."""

    def parse(self, text: str) -> Call | Malformed:
        return Call("bash", text)


@dataclass
class Lost(Owner):
    """Calls a tool that it has not."""

    def parse(self, text: str) -> Call | Malformed:
        return Call("python", text)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (Counting(), "another process, told of the same turns, asks the same"),
        (Asking(), "asked again, it says the same"),
        (Deaf(), "another instruction is another prompt"),
        (Credulous(), "calls nothing"),
        (Lost(), "calls a tool that there is"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Owner) else "",
)
def test_one_that_breaks_a_rule_is_found_out(program: Program, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        asyncio.run(check_program(program, ["ls", "cat x"], ["", " "]))
