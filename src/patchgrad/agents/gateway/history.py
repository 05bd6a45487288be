"""What a program says has been said, as messages for a policy: what is new of it, or all of it where it tells another story.

    system, user                                   -> begins a stream
    system, user, our answer, its result           -> the result extends the stream
    system, another user, or an answer not ours    -> begins another stream

Nothing that a policy has said is made ids of again: the stream has the ids that it sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
    """What a program asks: all that was said, and which tools may be called, each as JSON.

    `details`: does it want the ids before the answer, and log-probabilities? `offers`: does it name tools, be it such as are not described?
    """

    said: tuple[Said, ...]
    tools: tuple[str, ...] = ()
    details: bool = False
    offers: bool = False


class History:
    """What is known to have been said to a policy, and by it. With `tells_tools` the first message describes the tools of a request."""

    def __init__(self, tells_tools: bool = True) -> None:
        self._tells_tools = tells_tools
        self._known: tuple[Said, ...] = ()
        self._tools: tuple[str, ...] = ()

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
    return _alternating(new) if goes_on else ()


def beginning(request: ChatRequest) -> tuple[Message, ...]:
    """All of a request, at the beginning of a stream."""
    return _messages(request.said, calls.described(request.tools))


def _messages(said: Sequence[Said], tools: str = "") -> tuple[Message, ...]:
    """Messages of a whole stream: one of the system at most, first, and then the user's and the assistant's in turn."""
    leading = _leading(said)
    system = "\n\n".join(part for part in (*leading, tools) if part)
    return (*((Message("system", system),) if system else ()), *_alternating(said[len(leading) :]))


def _alternating(said: Sequence[Said]) -> tuple[Message, ...]:
    """The user's messages and the assistant's in turn, as templates ask for; results of tools, in tags, are the user's, and so is what the
    system says later.
    """
    found: list[Message] = []
    for one in said:
        role: Literal["user", "assistant"] = "assistant" if one.role == "assistant" else "user"
        text = calls.written(one.content, one.calls) if one.role == "assistant" else one.content
        text = calls.response(text) if one.role == "tool" else text
        if found and found[-1].role == role:
            found[-1] = Message(role, f"{found[-1].content}\n{text}")
        else:
            found.append(Message(role, text))
    return tuple(found)


def _leading(said: Sequence[Said]) -> list[str]:
    """What the system says before all others."""
    count = next((number for number, one in enumerate(said) if one.role != "system"), len(said))
    return [one.content for one in said[:count]]
