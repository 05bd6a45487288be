"""How a demonstrator says what it does: in the blocks of our own scaffold, or in calls of the one tool that mini-swe-agent has.

    open shop/cart.py 7     ->  grep -n '' shop/cart.py | sed -n 7,+11p
    open cart.py 7          ->  grep -n '' $(find . -name cart.py) | sed -n 7,+11p
    replace " <" " <="      ->  sed -i '7, / </ s/ </ <=/' shop/cart.py
    submit                  ->  echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT

A name and a number stand behind a space, as in the issue, so that they are the same tokens there and here. Both see a file as
`7:    if a < b:`, and a place in it by the number of its line.
"""

from __future__ import annotations

import re
import shlex
from typing import Protocol

from patchgrad.agents.gateway.calls import ToolCall, written
from patchgrad.agents.tools.edits import occurrences
from patchgrad.recipes.recipe import AgentChoice
from patchgrad.runs.demonstrations.edits import Edit
from patchgrad.runs.demonstrations.known_bugs import Known


class Idiom(Protocol):
    """One episode's way of speaking. `command` says a command of ours in its own; `turn` is an action's text.

    `window` is the line from which an edit counts its place: what an observation has shown, else that from `before`. An edit is a call of
    the tool `editing`, and its first words follow the text `opening`.
    """

    editing: str
    opening: str

    def command(self, command: str) -> str: ...
    def edit(self, edit: Edit) -> str: ...
    def window(self, observation: str, before: int) -> int: ...
    def turn(self, thought: str, command: str) -> str: ...


class Blocks:
    """The scaffold `react`: a thought and one fenced command, with tools that open and edit files."""

    editing, opening = "replace", 'replace "'

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

    editing, opening = "bash", ", /"

    def __init__(self, known: Known, lines: int) -> None:
        self._known, self._lines = known, lines
        self._file, self._first = shlex.quote(known.file), 1

    def command(self, command: str) -> str:
        """A command in words of bash; what is one already stays."""
        word, *rest = command.split()
        if word == "open":
            self._file = shlex.quote(rest[0]) if "/" in rest[0] else f"$(find . -name {shlex.quote(rest[0])})"
            self._first = int(rest[1])
        elif word == "scroll_down":
            self._first += self._lines
        elif word == "submit":
            return "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        else:
            return command
        return f"grep -n '' {self._file} | sed -n {self._first},+{self._lines - 1}p"

    def edit(self, edit: Edit) -> str:
        """The first such words from the window on, as our own tool has it, or those of a line where they are not the first."""
        pattern, put = _pattern(edit.old), _put(edit.new)
        number = int(edit.line.partition(":")[0] or self._known.line)
        if edit.place == 1 and number > self._first:
            return f"sed -i {shlex.quote(f'{self._first}, /{pattern}/ s/{pattern}/{put}/')} {self._file}"
        which = self._within(edit, number)
        counted = str(which) if which > 1 else ""
        return f"sed -i {shlex.quote(f'{number} s/{pattern}/{put}/{counted}')} {self._file}"

    def _within(self, edit: Edit, number: int) -> int:
        """Which of the same words in its line an edit means, from 1 on."""
        source = self._known.source
        begins = sum(len(line) for line in source.splitlines(keepends=True)[: number - 1])
        places = occurrences(source, edit.old, self._first)
        at = places[edit.place - 1] if len(places) >= edit.place else begins
        return source[begins:at].count(edit.old) + 1

    def window(self, observation: str, before: int) -> int:
        """The line from which the file was opened last."""
        return self._first

    def turn(self, thought: str, command: str) -> str:
        """A thought and one call."""
        return written(thought, [("bash", ToolCall("bash", {"command": command}).text)])


def _pattern(text: str) -> str:
    """The text as a basic regular expression that means itself."""
    return re.sub(r"([\\/.*\[\]^$])", r"\\\1", text)


def _put(text: str) -> str:
    return re.sub(r"([\\/&])", r"\\\1", text)


def idiom(agent: AgentChoice, known: Known) -> Idiom:
    """How a demonstration for an agent is said: in blocks, which a user's own agent reads too, unless it is one of others."""
    return BashCalls(known, agent.window) if spoken(agent) is BashCalls else Blocks()


def spoken(agent: AgentChoice) -> type[Blocks] | type[BashCalls]:
    """The way of speaking of an agent."""
    return BashCalls if agent.scaffold.name == "mini-swe-agent" else Blocks
