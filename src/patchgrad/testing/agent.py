"""What every agent must hold, as one function that its author runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import numpy as np

from patchgrad.contracts import Agent, Extend, Finish, Restart
from patchgrad.testing.examples import example_turn, malformed_turn
from patchgrad.values import Call, Malformed, Message, Turn

INSTRUCTION = "The total of an empty cart is wrong: total([]) raises {TypeError} and should be 0."
PIECES = (
    *(
        "```command\n",
        "```",
        "```\n",
        "\n",
        "\n\n",
        " ",
        "\t",
        "\r\n",
        "<<'EOF'\n",
        "EOF\n",
        "<<",
        "&&",
        "|",
        "'",
        '"',
        "\\",
        "\x00",
        "\udcff",
    ),
    *("<tool_call>", "</tool_call>", '{"name": ', "}", "ls -l", "I look. ", "漢字", "🙂", "{0}", "%s", "- ", "x" * 2000),
)


def check_agent(agent: Agent, texts: Sequence[str] = ()) -> None:
    """Raises `AssertionError` for the first rule that an agent breaks; `texts` are actions that it should read, beside odd ones.

    Tools go by their names. A prompt takes an instruction and turns, never a task, and is a pure function of them: it says what is to be
    done, then what was observed, and gives the same whatever it was asked before. Any text at all is read as a call of one of its tools
    or as malformed with a word for the policy, and the same text always as the same.
    """
    assert list(inspect.signature(agent.prompt).parameters) == ["instruction", "turns"], "a prompt sees an instruction and turns, no task"
    assert agent.tools, "an agent has tools"
    for name, tool in agent.tools.items():
        assert tool.name == name, f"the tool {tool.name!r} goes by its name, not by {name!r}"
    _check_prompt(agent)
    names = tuple(agent.tools)
    for text in (*texts, *_odd(names)):
        _check_parse(agent, text)
    assert all(isinstance(agent.parse(text), Call) for text in texts), "actions that an agent should read are calls"


def _check_prompt(agent: Agent) -> None:
    first = agent.prompt(INSTRUCTION, ())
    assert isinstance(first, Extend | Restart), "before the first turn there is something to do"
    said = _messages(first.messages)
    assert INSTRUCTION in said, "the first prompt holds the instruction as it stands"
    assert agent.prompt("Other words.", ()) != first, "another instruction is another prompt"
    turns: list[Turn] = []
    for number in range(4):
        parent = turns[-1].address if turns else "root"
        turns.append(malformed_turn(parent) if number == 2 else example_turn(parent, f"echo {number}"))
        step = agent.prompt(INSTRUCTION, tuple(turns))
        assert isinstance(step, Extend | Restart | Finish), "a prompt extends, restarts or finishes"
        if isinstance(step, Finish):
            continue
        assert turns[-1].observation.content in _messages(step.messages), "what was observed is in the next prompt"
        assert agent.prompt(INSTRUCTION, ()) == first, "a prompt does not depend on what was asked before"
        assert agent.prompt(INSTRUCTION, list(turns)) == step, "the same turns have the same prompt"


def _messages(messages: Sequence[Message]) -> str:
    assert messages, "a prompt has a message"
    assert all(message.content for message in messages), "no message of a prompt is empty"
    assert messages[-1].role == "user", "after a prompt it is the policy's turn"
    return "\n".join(message.content for message in messages)


def _check_parse(agent: Agent, text: str) -> None:
    try:
        found = agent.parse(text)
    except Exception as error:
        raise AssertionError(f"an action is read without an exception, and {text[:200]!r} raised {error!r}") from error
    assert agent.parse(text) == found, "the same text is read as the same"
    match found:
        case Call(tool, arguments):
            assert tool in agent.tools, f"a call names a tool of the agent's, and {tool!r} is none"
            assert isinstance(arguments, str), "arguments are text"
        case Malformed(_, message):
            assert message, "the policy is told what was malformed"
        case _:
            raise AssertionError(f"an action is a call or malformed, not {found!r}")


def _odd(names: Sequence[str]) -> Iterator[str]:
    """Texts that a policy may say: nothing, pieces of every format in any order, and each tool with odd arguments."""
    random, pieces = np.random.default_rng(0), (*PIECES, *names)
    yield from ("", "\n", "I have no idea.", *pieces)
    for name in names:
        yield from (f"```command\n{name}{rest}\n```" for rest in ("", " ", " a 'b", "\n", " <<EOF\nx", " \x00"))
    for length in (2, 3, 5, 8, 13, 21):
        for _ in range(100):
            yield "".join(pieces[number] for number in random.integers(0, len(pieces), length))
