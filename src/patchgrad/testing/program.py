"""What every program of others must hold, as one function that its author awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from patchgrad.contracts import Extend, Finish, Program, Restart, Sandbox
from patchgrad.rollouts.access import Alone
from patchgrad.testing.examples import example_turn
from patchgrad.values import Action, Call, Ids, Malformed, Turn

INSTRUCTION = "The total of an empty cart is wrong: total([]) raises {TypeError} and should be 0."


Open = Callable[[], Awaitable[Sandbox]]


async def check_program(program: Program, calls: Sequence[str], odd: Sequence[str], sandbox: Open | None = None) -> None:
    """Raises `AssertionError` for the first rule that a program breaks.

    `calls` are two actions or more that call a tool and do not end it; `odd` are others that call none. Tools go by their names. A text is
    read as a call of one of them or as malformed. A program begins with a step, says the same however often it is asked, and after the
    same turns another process of it says the same. An instruction is all that it learns of a task. It can be closed at any point, twice.

    One that asks in a sandbox needs a fresh `sandbox` each time; there its calls are made too.
    """
    for name, tool in program.tools.items():
        assert tool.name == name, f"the tool {tool.name!r} goes by its name, not by {name!r}"
    for text in calls:
        read = program.parse(text)
        assert isinstance(read, Call), f"{text!r} is a call"
        assert read.tool in program.tools, f"{text!r} calls a tool that there is"
    for text in odd:
        malformed = program.parse(text)
        assert isinstance(malformed, Malformed), f"{text!r} calls nothing"
        assert malformed.message, "what is malformed is told in words"
    turns = tuple(_turn(program, text) for text in calls)
    first, second = await _steps(program, INSTRUCTION, turns, sandbox), await _steps(program, INSTRUCTION, turns, sandbox)
    assert first == second, "another process, told of the same turns, asks the same"
    assert isinstance(first[0], Extend | Restart), "it begins with a step"
    other = await _steps(program, "Other words.", (), sandbox)
    assert other != first[:1], "another instruction is another prompt"
    unasked = program.begin(INSTRUCTION)
    await unasked.close()
    await unasked.close()


class _Attempt(Alone):
    """The access of an attempt in a sandbox."""

    command_seconds = 20.0

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.turn: Turn

    async def sandbox(self) -> Sandbox:
        return self._sandbox

    @property
    def sampled(self) -> tuple[Action, Ids]:
        return self.turn.action, self.turn.context


async def _steps(program: Program, instruction: str, turns: Sequence[Turn], sandbox: Open | None) -> list[Extend | Restart | Finish]:
    """What it says after none of the turns, one, and so on."""
    if sandbox is None:
        return await _said(program, instruction, turns, Alone())
    async with await sandbox() as opened:
        return await _said(program, instruction, turns, _Attempt(opened))


async def _said(program: Program, instruction: str, turns: Sequence[Turn], access: Alone) -> list[Extend | Restart | Finish]:
    conversation = program.begin(instruction)
    assert set(conversation.tools) == set(program.tools), "a conversation has the tools of its program"
    try:
        found = []
        for number in range(len(turns) + 1):
            step = await conversation.prompt(turns[:number], access)
            assert await conversation.prompt(turns[:number], access) == step, "asked again, it says the same"
            found.append(step)
            if isinstance(access, _Attempt) and number < len(turns):
                access.turn, call = turns[number], turns[number].call
                assert isinstance(call, Call)
                await conversation.tools[call.tool](call.arguments, await access.sandbox(), access.turn.observation.tool_state)
        return found
    finally:
        await conversation.close()


def _turn(program: Program, text: str) -> Turn:
    """A turn that made the call of a text."""
    made = example_turn("", text)
    return replace(made, call=program.parse(text))
