"""What every program of others must hold, as one function that its author awaits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchgrad.contracts import Extend, Finish, Program, Restart
from patchgrad.rollouts.conversations import Alone
from patchgrad.testing.examples import example_turn
from patchgrad.values import Call, Malformed, Turn

INSTRUCTION = "The total of an empty cart is wrong: total([]) raises {TypeError} and should be 0."


async def check_program(program: Program, calls: Sequence[str], odd: Sequence[str]) -> None:
    """Raises `AssertionError` for the first rule that a program breaks.

    `calls` are two actions or more that call a tool and do not end it; `odd` are others that call none. Tools go by their names. A text is
    read as a call of one of them or as malformed. A program begins with a step, says the same however often it is asked, and after the
    same turns another process of it says the same. An instruction is all that it learns of a task. It can be closed at any point, twice.
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
    first, second = await _steps(program, INSTRUCTION, turns), await _steps(program, INSTRUCTION, turns)
    assert first == second, "another process, told of the same turns, asks the same"
    assert isinstance(first[0], Extend | Restart), "it begins with a step"
    other = await _steps(program, "Other words.", ())
    assert other != first[:1], "another instruction is another prompt"
    unasked = program.begin(INSTRUCTION)
    await unasked.close()
    await unasked.close()


async def _steps(program: Program, instruction: str, turns: Sequence[Turn]) -> list[Extend | Restart | Finish]:
    """What it says after none of the turns, one, and so on."""
    conversation = program.begin(instruction)
    try:
        found = []
        for number in range(len(turns) + 1):
            step = await conversation.prompt(turns[:number], Alone())
            assert await conversation.prompt(turns[:number], Alone()) == step, "asked again, it says the same"
            found.append(step)
        return found
    finally:
        await conversation.close()


def _turn(program: Program, text: str) -> Turn:
    """A turn that made the call of a text."""
    made = example_turn("", text)
    return replace(made, call=program.parse(text))
