"""How a demonstrator says what it does: in the blocks of our own scaffold, or in calls of the one tool that mini-swe-agent has.

    open shop/cart.py 7     ->  grep -n '' shop/cart.py | sed -n 7,+11p
    open cart.py 7          ->  grep -n '' $(find . -name cart.py) | sed -n 7,+11p
    replace " <" " <="      ->  sed -i '7s/ </ <=/' shop/cart.py
    submit                  ->  echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT

A name and a number stand behind a space, as in the issue, so that they are the same tokens there and here. Both see a file as
`7:    if a < b:`, and a place in it by the number of its line.
"""

from __future__ import annotations

import re
import shlex
from typing import Protocol

from patchgrad.agents.gateway.calls import ToolCall, written
from patchgrad.recipes.recipe import AgentChoice
from patchgrad.runs.demonstrations.edits import Edit
from patchgrad.runs.demonstrations.known_bugs import Known


class Idiom(Protocol):
    """One episode's way of speaking. `command` says a command of ours in its own; `turn` is an action's text.

    `window` is the line from which an edit counts its place: what an observation has shown, else that from `before`; 0 is the line itself.
    """

    def command(self, command: str) -> str: ...
    def edit(self, edit: Edit) -> str: ...
    def window(self, observation: str, before: int) -> int: ...
    def turn(self, thought: str, command: str) -> str: ...


class Blocks:
    """The scaffold `react`: a thought and one fenced command, with tools that open and edit files."""

    def command(self, command: str) -> str:
        return command

    def edit(self, edit: Edit) -> str:
        return edit.command()

    def window(self, observation: str, before: int) -> int:
        """The first line of a file that was opened."""
        first = re.match(r"\[File: .*\n([0-9]+):", observation)
        return int(first[1]) if first else before

    def turn(self, thought: str, command: str) -> str:
        """`Test it.` and one fenced command block."""
        return f"{thought}\n```command\n{command}\n```"


class BashCalls:
    """mini-swe-agent: a thought and a call of `bash`, which has no editor. A view has so many lines."""

    def __init__(self, known: Known, lines: int) -> None:
        self._known, self._lines = known, lines
        self._file, self._first = shlex.quote(known.file), 1

    def command(self, command: str) -> str:
        """A command in words of bash; what is one already stays."""
        word, *rest = command.split()
        if word == "open":
            self._file = shlex.quote(rest[0]) if rest[0] == self._known.file else f"$(find . -name {shlex.quote(rest[0])})"
            self._first = int(rest[1])
        elif word == "scroll_down":
            self._first += self._lines
        elif word == "submit":
            return "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        else:
            return command
        return f"grep -n '' {self._file} | sed -n {self._first},+{self._lines - 1}p"

    def edit(self, edit: Edit) -> str:
        """The edit of one line, and of the words in it that are meant where they stand there twice."""
        number = edit.line.partition(":")[0] or str(self._known.line)
        which = str(edit.place) if edit.place > 1 else ""
        return f"sed -i {shlex.quote(f'{number}s/{_pattern(edit.old)}/{_put(edit.new)}/{which}')} {self._file}"

    def window(self, observation: str, before: int) -> int:
        """An edit names its line, so places count in that alone."""
        return 0

    def turn(self, thought: str, command: str) -> str:
        """A thought and one call."""
        return written(thought, [("bash", ToolCall("bash", {"command": command}).text)])


def _pattern(text: str) -> str:
    """The text as a basic regular expression that means itself."""
    return re.sub(r"([\\/.*\[\]^$])", r"\\\1", text)


def _put(text: str) -> str:
    return re.sub(r"([\\/&])", r"\\\1", text)


def idiom(agent: AgentChoice, known: Known) -> Idiom:
    """How demonstrations for an agent are said: in blocks, which a user's own agent reads too, unless it is one of others."""
    return BashCalls(known, agent.window) if agent.scaffold.name == "mini-swe-agent" else Blocks()
