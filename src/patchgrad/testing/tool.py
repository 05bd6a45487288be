"""What every tool must hold, as one function that its author runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchgrad.contracts import Sandboxes, Tool
from patchgrad.values import Observation, Snapshot, Task, ToolState

ODD = (
    *(
        "",
        " ",
        "\n",
        "'",
        '"never closed',
        "--",
        "--file",
        "-1",
        "0",
        "999999999999999999999",
        "7:3",
        "1:2:3",
        "a b c d e",
        "../../..",
        "/",
        ".",
    ),
    *(
        "no/such/file.py",
        "<<EOF",
        "<< 'EOF'\nnever closed",
        "1:1 << 'EOF'\nx\nEOF\nmore",
        "# 漢字 🙂",
        "x\x00y",
        "# \udcff",
        "[",
        "*",
        "# %s {0}",
    ),
    "# " + "x" * 5000,
)
"""Arguments that no usage asks for. Each of them is harmless where it is a command of a shell."""

HERE = ToolState()


async def check_tool(tool: Tool, backend: Sandboxes, task: Task, calls: Sequence[str], state: ToolState = HERE) -> None:
    """Raises `AssertionError` for the first rule that a tool breaks.

    `calls` are arguments that work in a fresh sandbox of the task, for an agent that stands where `state` says; `backend` may be a double.

    A tool has a name of one word and says how it is used. Whatever its arguments are, it answers: with text that can be encoded, and with
    the state that the agent is in then, which is the one before where the arguments were bad. A tool that reads only leaves no trace in
    the files. A call that is repeatable, before it is made and by its answer, says and leaves the same in every sandbox in the same state.
    """
    assert tool.name, "a tool has a name"
    assert len(tool.name.split()) == 1, "the name of a tool is one word"
    assert tool.usage.strip(), "a tool says how it is used"
    async with await backend.open(task) as sandbox:
        for arguments in ODD:
            before = await sandbox.snapshot()
            try:
                said = await tool(arguments, sandbox, state)
            except Exception as error:
                raise AssertionError(f"{tool.name} {arguments[:80]!r} is an observation, and raised {error!r}") from error
            _check_answer(tool, arguments, said, state)
            after = await sandbox.snapshot()
            assert not tool.reads_only or after.address == before.address, f"{tool.name} reads only, and {arguments[:80]!r} changed a file"
            if after.address != before.address:
                await sandbox.reset()
    for arguments in calls:
        await _check_call(tool, backend, task, arguments, state)


async def _check_call(tool: Tool, backend: Sandboxes, task: Task, arguments: str, state: ToolState) -> None:
    """A call that works, twice: each time in a sandbox that nobody has used."""
    made = [await _called(tool, backend, task, arguments, state) for _ in range(2)]
    (one, left), (two, also_left) = made
    assert one.failure != "bad arguments", f"the call {arguments!r} works, and was told: {one.content}"
    _check_answer(tool, arguments, one, state)
    assert not tool.reads_only or not left.entries, f"{tool.name} reads only, and {arguments!r} changed {sorted(left.entries)}"
    if tool.repeatable(arguments, None) and tool.repeatable(arguments, one):
        assert replace(one, seconds=0.0) == replace(two, seconds=0.0), f"{arguments!r} is repeatable, and was answered in two ways"
        assert left.address == also_left.address, f"{arguments!r} is repeatable, and left two states"
        assert (left.directory, also_left.directory) == (left.directory,) * 2, f"{arguments!r} is repeatable, and left two directories"


async def _called(tool: Tool, backend: Sandboxes, task: Task, arguments: str, state: ToolState) -> tuple[Observation, Snapshot]:
    async with await backend.open(task) as sandbox:
        return await tool(arguments, sandbox, state), await sandbox.snapshot()


def _check_answer(tool: Tool, arguments: str, said: Observation, state: ToolState) -> None:
    call = f"{tool.name} {arguments[:80]!r}"
    assert isinstance(said, Observation), f"{call} is answered with an observation, not {said!r}"
    try:
        said.content.encode()
    except UnicodeEncodeError as error:
        raise AssertionError(f"what {call} is answered can be encoded, and is {said.content[:80]!r}") from error
    assert isinstance(said.tool_state, ToolState), f"{call} says where the agent stands"
    assert said.tool_state.directory.startswith("/"), f"after {call} the directory is an absolute path"
    assert said.tool_state.line >= 1, f"after {call} the window begins at a line"
    assert said.failure != "bad arguments" or said.tool_state == state, f"{call} was a bad one, and moved the agent"
    for observation in (None, said):
        assert isinstance(tool.repeatable(arguments, observation), bool), f"{tool.name} says of any call whether it is repeatable"
