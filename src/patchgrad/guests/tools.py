"""What a model of another program's calls in a sandbox of ours: the same tools with the same words in each program."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from typing import Any, get_type_hints

from patchgrad.values import Call, Malformed

PROMPT = """The repository in /testbed has a bug. Repair it.

{instruction}

Work with the tools, and call submit when you are done. What you have changed by then is judged by tests that you do not see."""
SUBMITTED = "Submitted."
_TYPES = {str: "string", int: "integer"}


class RepairTools:
    """The public methods are what a model calls; `_call` and `_submit` say what comes of it."""

    def shell(self, command: str) -> str:
        """Run a command in the shell of the repository. The shell keeps its folder and its variables.

        Args:
            command: The command, such as "pytest -x". It cannot ask for input.

        Returns:
            What the command printed.
        """
        return self._call("shell", command)

    def open(self, path: str, line: int = 1) -> str:
        """Show a part of a file, with the numbers of its lines.

        Args:
            path: The file, such as "shop/cart.py".
            line: A line of the part that is shown.

        Returns:
            The part of the file.
        """
        return self._call("open", f"{shlex.quote(path)} {line}")

    def search_file(self, text: str, path: str) -> str:
        """Find the lines of a file that hold a text.

        Args:
            text: The text, as it stands in the file.
            path: The file, such as "shop/cart.py".

        Returns:
            The lines with their numbers.
        """
        return self._call("search_file", f"{shlex.quote(text)} {shlex.quote(path)}")

    def create(self, path: str) -> str:
        """Make a new file of one empty line, which the tool edit can fill.

        Args:
            path: The file, which must not be there yet.

        Returns:
            The file, or why it cannot be made.
        """
        return self._call("create", shlex.quote(path))

    def edit(self, path: str, first: int, last: int, text: str) -> str:
        """Put a text in the place of some lines of a file.

        Args:
            path: The file, such as "shop/cart.py".
            first: The first line that is replaced.
            last: The last line that is replaced.
            text: The new lines. With no text the lines are deleted.

        Returns:
            The changed part of the file.
        """
        return self._call("edit", f"--file {shlex.quote(path)} {first}:{last} {shlex.quote(text)}")

    def replace(self, path: str, search: str, text: str) -> str:
        """Put a text in the place of another one, where that stands first in a file.

        Args:
            path: The file, such as "shop/cart.py".
            search: The text that is replaced, as it stands in the file.
            text: The new text.

        Returns:
            The changed part of the file.
        """
        return self._call("replace", f"--file {shlex.quote(path)} {shlex.quote(search)} {shlex.quote(text)}")

    def submit(self) -> str:
        """Hand in all changes of the repository. Nothing can be changed afterwards.

        Returns:
            That the attempt is over.
        """
        return self._submit()

    def _call(self, tool: str, arguments: str) -> str:
        raise NotImplementedError

    def _submit(self) -> str:
        raise NotImplementedError


class _Spelling(RepairTools):
    """Takes down which tool is called, for a program that waits for the answer in its own way."""

    def __init__(self) -> None:
        self.call = Call("", "")

    def _call(self, tool: str, arguments: str) -> str:
        self.call = Call(tool, arguments)
        return ""

    def _submit(self) -> str:
        return self._call("submit", "")


def schemas() -> list[dict[str, Any]]:
    """The tools as functions of OpenAI's chat completions, each described by its method."""
    return [{"type": "function", "function": _described(name)} for name in _names()]


def spelt(name: str, arguments: str) -> Call | Malformed:
    """The call that a model asks for by the name of a function and an object of JSON, or what is wrong with that."""
    if name not in _names():
        return Malformed("unknown tool", f"There is no tool {name}; there are {', '.join(_names())}.")
    try:
        given = json.loads(arguments or "{}")
    except ValueError as error:
        return Malformed("bad arguments", f"The arguments of {name} are no JSON ({error}).")
    if not isinstance(given, dict):
        return Malformed("bad arguments", f"The arguments of {name} are no object of JSON.")
    taken = _described(name)["parameters"]
    odd, missing = sorted(given.keys() - taken["properties"]), [one for one in taken["required"] if one not in given]
    if odd or missing:
        wrong = [f"has no argument {one}" for one in odd] + [f"needs the argument {one}" for one in missing]
        return Malformed("bad arguments", f"The tool {name} {', and '.join(wrong)}.")
    if texts := [one for one, value in given.items() if taken["properties"][one]["type"] == "string" and not isinstance(value, str)]:
        return Malformed("bad arguments", f"The argument {texts[0]} of {name} is to be a text.")
    spelling = _Spelling()
    getattr(spelling, name)(**given)
    return spelling.call


def _names() -> list[str]:
    return [name for name in vars(RepairTools) if not name.startswith("_")]


def _described(name: str) -> dict[str, Any]:
    """Name, description and parameters, from the docstring and the types of a method."""
    method = getattr(RepairTools, name)
    about, _, sections = (inspect.getdoc(method) or "").partition("\n\n")
    said, types = dict(re.findall(r"^ +(\w+): (.+)$", sections, re.MULTILINE)), get_type_hints(method)
    parameters = {one: part for one, part in inspect.signature(method).parameters.items() if one != "self"}
    properties = {one: {"type": _TYPES[types[one]], "description": said[one]} for one in parameters}
    required = [one for one, part in parameters.items() if part.default is part.empty]
    return {"name": name, "description": about, "parameters": {"type": "object", "properties": properties, "required": required}}
