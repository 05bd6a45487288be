"""Every tool against the contract."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace

import pytest

from patchgrad.agents.tools import FunctionTool, View, toolset
from patchgrad.agents.tools.special import Submit
from patchgrad.contracts import Sandbox
from patchgrad.testing import LocalSandboxes, check_tool
from patchgrad.testing.examples import TASK
from patchgrad.values import Limits, Observation, ToolState

FILES = {
    "shop/cart.py": "def total(items):\n    return sum(items)\n" + "# more\n" * 150,
    "test_cart.py": "def test_it():\n    assert True\n",
}
OPEN = ToolState("/testbed/shop", "/testbed/shop/cart.py", 3)
QUICK = replace(TASK, limits=Limits(command_seconds=10.0))
CALLS: dict[str, tuple[str, ...]] = {
    "shell": ("ls", "git status", "cat shop/cart.py | head -3", "cd shop && pwd", "git diff", "no-such-program"),
    "create": ("new.py", "deep/new.py && ls deep"),
    "open": ("/testbed/shop/cart.py 20", "cart.py", ""),
    "goto": ("120",),
    "scroll_down": ("",),
    "scroll_up": ("",),
    "search_file": ("total", "'sum(' cart.py"),
    "edit": ("1:1 'def total(goods):'", "--file ../test_cart.py 2:2 << 'EOF'\n    assert 1\nEOF", "1:2"),
    "replace": ("sum max", "--replace-all more less && git diff", "'# more\n# more' '# one'"),
    "submit": ("",),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("brief", [False, True], ids=["full", "brief"])
def test_a_tool_of_the_paper_keeps_the_contract(name: str, brief: bool) -> None:
    tool = toolset(View(brief=brief))[name]
    asyncio.run(check_tool(tool, LocalSandboxes(FILES), QUICK, CALLS[name], OPEN if name != "shell" else ToolState()))


def test_a_user_s_function_as_a_tool_keeps_the_contract() -> None:
    async def outline(arguments: str, sandbox: Sandbox, state: ToolState) -> str:
        "outline FILE: the functions of a file"
        return (await sandbox.run(f"grep -nE '^ *(def|class) ' {shlex.quote(arguments)}")).output

    tool = FunctionTool(outline, reads_only=True)
    asyncio.run(check_tool(tool, LocalSandboxes(FILES), QUICK, ("shop/cart.py",)))


def test_every_tool_is_checked() -> None:
    assert set(CALLS) == set(toolset())


def test_a_tool_that_writes_and_says_that_it_reads_is_found_out() -> None:
    class Marking(Submit):
        async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
            await sandbox.write("mark", b"x")
            return await super()._do("", sandbox, state)

    with pytest.raises(AssertionError, match="reads only"):
        asyncio.run(check_tool(Marking(View()), LocalSandboxes(FILES), QUICK, ("",)))


def test_a_tool_whose_answer_changes_and_that_says_it_is_repeatable_is_found_out() -> None:
    class Counting(Submit):
        count = iter(range(1000))

        async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
            return Observation(f"submitted {next(self.count)}", state)

    with pytest.raises(AssertionError, match="answered in two ways"):
        asyncio.run(check_tool(Counting(View()), LocalSandboxes(FILES), QUICK, ("",)))
