"""Every agent against the contract."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import Extend, Finish
from patchgrad.testing import check_agent
from patchgrad.values import Call, Malformed, Message, Turn

CALLS = ("```command\nls -l\n```", "I open it.\n```command\nopen a.py 3\n```", "```command\nsubmit\n```")


@pytest.mark.parametrize("demonstration", [False, True])
@pytest.mark.parametrize("prompts", ["full", "brief"])
def test_the_react_agent_keeps_the_contract(prompts: Literal["full", "brief"], demonstration: bool) -> None:
    check_agent(ReactAgent(toolset(View(brief=prompts == "brief")), prompts, demonstration), CALLS)


def test_an_agent_that_remembers_or_raises_is_found_out() -> None:
    class Counting(ReactAgent):
        count = itertools.count()

        def prompt(self, instruction: str, turns: Sequence[Turn]) -> Extend | Finish:
            return Extend((Message("user", f"{instruction} {turns[-1].observation.content if turns else ''} {next(self.count)}"),))

    with pytest.raises(AssertionError, match="does not depend on what was asked before"):
        check_agent(Counting(toolset()))

    class Hasty(ReactAgent):
        def parse(self, text: str) -> Call | Malformed:
            return replace(Call("shell", ""), arguments=text.split("```command\n")[1])

    with pytest.raises(AssertionError, match="without an exception"):
        check_agent(Hasty(toolset()))
