"""What a program says has been said, as messages for a policy: what is new of it, or all of it where it tells another story.

    system, user                                   -> begins a stream
    system, user, our answer, its result           -> the result extends the stream
    system, another user, or an answer not ours    -> begins another stream

Nothing that a policy has said is made ids of again: the stream has the ids that it sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from patchgrad.agents.gateway import calls
from patchgrad.contracts import Extend, Restart
from patchgrad.values import Message


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a program's history. An assistant's `calls` are names and arguments as JSON; a tool's result says of which `call`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[tuple[str, str], ...] = ()
    call: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a program asks: all that was said, and which tools may be called.

    `details`: does it want the ids before the answer, and log-probabilities?
    """

    said: tuple[Said, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    details: bool = False


class History:
    """What is known to have been said to a policy, and by it. With `tells_tools` the first message describes the tools of a request."""

    def __init__(self, tells_tools: bool = True) -> None:
        self._tells_tools = tells_tools
        self._known: tuple[Said, ...] = ()
        self._tools: tuple[Mapping[str, Any], ...] = ()

    def step(self, request: ChatRequest) -> Extend | Restart:
        """What a request adds: a step of the same stream where it tells all that is known and more, else one that begins another."""
        known, self._known = self._known, request.said
        new = later(request.said, known) if known and request.tools == self._tools else ()
        self._tools = request.tools
        if new:
            return Extend(new)
        messages = beginning(request) if self._tells_tools else _messages(request.said)
        return Restart(messages) if known else Extend(messages)

    def answered(self, said: Said) -> None:
        """What the program was answered."""
        self._known = (*self._known, said)


def later(said: Sequence[Said], known: Sequence[Said]) -> tuple[Message, ...]:
    """What was said after all that is known; nothing where another story is told, an answer of others in it, or no more."""
    new = said[len(known) :]
    goes_on = tuple(said[: len(known)]) == tuple(known) and all(one.role != "assistant" for one in new)
    return _messages(new) if goes_on and new else ()


def beginning(request: ChatRequest) -> tuple[Message, ...]:
    """All of a request, at the beginning of a stream."""
    return _messages(request.said, calls.described(request.tools))


def _messages(said: Sequence[Said], tools: str = "") -> tuple[Message, ...]:
    """Messages that any chat template takes: one of the system at most, first; results of tools in tags, several of them in one."""
    system = "\n\n".join(part for part in (*_leading(said), tools) if part)
    found = [Message("system", system)] if system else []
    joined = False
    for one in said[len(_leading(said)) :]:
        match one.role:
            case "assistant":
                found.append(Message("assistant", calls.written(one.content, one.calls)))
            case "tool" if joined:
                found[-1] = Message("user", f"{found[-1].content}\n{calls.response(one.content)}")
            case "tool":
                found.append(Message("user", calls.response(one.content)))
            case _:
                found.append(Message("user", one.content))
        joined = one.role == "tool"
    return tuple(found)


def _leading(said: Sequence[Said]) -> list[str]:
    """What the system says before all others."""
    count = next((number for number, one in enumerate(said) if one.role != "system"), len(said))
    return [one.content for one in said[:count]]
