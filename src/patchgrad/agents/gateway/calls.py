"""Calls of tools as the text that a policy reads and writes: the tags of Hermes 2 Pro, which Qwen2.5 and Qwen3 are trained on.

`<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>` is a call, `<tool_response>...</tool_response>` what it gave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from patchgrad.values.text import well_formed

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool's name and its arguments by name."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The arguments as JSON, as an answer carries them."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """A policy's text: what it says before its first call, and the call; where there is none that can be read, why."""

    content: str
    call: ToolCall | None
    fault: Literal["no command", "bad arguments"] | None = None


def read(text: str) -> Answered:
    """The first call of a text. Of several the first is made: an answer calls one tool, as with `parallel_tool_calls: false`.

    `read('Look.\\n<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>')` has the content `Look.` and the call of
    `bash`. A text without a call, or with one that is no JSON object of these two, stays text.
    """
    before, opened, rest = text.partition(_OPEN)
    inside, closed, _ = rest.partition(_CLOSE)
    if not opened or not closed:
        return Answered(text, None, "no command")
    call = _call(inside)
    return Answered(text, None, "bad arguments") if call is None else Answered(before.rstrip(), call)


def _call(text: str) -> ToolCall | None:
    try:
        said = loaded(text)
        arguments = said["arguments"]
        arguments = loaded(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    name = said["name"] if isinstance(said, dict) and isinstance(said.get("name"), str) else ""
    return ToolCall(name, arguments) if name and isinstance(arguments, dict) else None


def loaded(text: str) -> Any:
    """JSON whose texts are well formed, names included: it can spell halves of letters, which no tokenizer takes."""
    told = json.loads(well_formed(text))
    return json.loads(well_formed(json.dumps(told, ensure_ascii=False))) if "\\u" in text and "\\ud" in text.lower() else told


def written(content: str, calls: Sequence[tuple[str, str]]) -> str:
    """An answer as text, from what it says and the name and arguments of each call: the inverse of `read`, and for what others answered."""
    told = [f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>' for name, arguments in calls]
    return "\n".join(part for part in (content, *told) if part)


def response(content: str) -> str:
    """What a tool gave, as a policy reads it."""
    return f"<tool_response>\n{content}\n</tool_response>"


def described(tools: Sequence[str]) -> str:
    """The tools of a request, each as JSON, as a policy is told of them; nothing where there are none."""
    if not tools:
        return ""
    listed = "\n".join(tools)
    return (
        f"# Tools\n\nThese functions can be called:\n<tools>\n{listed}\n</tools>\n\n"
        'A call is a JSON object with the name of the function and its arguments, in tags:\n<tool_call>\n{"name": NAME, "arguments": '
        "{...}}\n</tool_call>\nAn answer makes one call. What it gives comes in <tool_response> tags."
    )
