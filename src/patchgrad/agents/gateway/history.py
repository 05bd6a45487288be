"""What a program says has been said, as messages for a policy: what is new of it, or all of it where it tells another story.

    system, user                                   -> begins a stream
    system, user, our answer, its result           -> the result extends the stream
    system, user, our answer, another result       -> begins a stream with the ids of the first up to our answer: a fork
    system, another user, or an answer not ours    -> begins a stream with what it tells

Of all answers that were given, the last one that a request goes on from counts. Nothing that a policy has said is made ids of again: the
stream has the ids that it sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from patchgrad.agents.gateway import calls
from patchgrad.agents.thoughts import aloud
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


@dataclass(frozen=True, slots=True)
class Told:
    """All that was said up to an answer, and the tools that were told of; `number` counts the answers before it."""

    number: int
    said: tuple[Said, ...]
    tools: tuple[str, ...]

    def before(self, request: ChatRequest) -> ChatRequest:
        """A request that goes on from here, with what was said so far as it is known: with thoughts that a client leaves out, and without
        a second copy of its texts.
        """
        return replace(request, said=(*self.said, *request.said[len(self.said) :]), tools=self.tools)


class History:
    """What is known to have been said to a policy, and by it. With `tells_tools` the first message describes the tools of a request."""

    def __init__(self, tells_tools: bool = True) -> None:
        self._tells_tools = tells_tools
        self._asked = ChatRequest(())
        self._known: list[Told] = []

    def step(self, request: ChatRequest) -> Extend | Restart:
        """What a request adds: to the stream as it is where it goes on from the last answer, or to one as it was after an earlier answer;
        else it begins another stream.
        """
        told = longest(request, self._known)
        self._asked = request if told is None else told.before(request)
        if told is None:
            messages = beginning(request) if self._tells_tools else _messages(request.said)
            return Restart(messages) if self._known else Extend(messages)
        new = later(request.said, told.said)
        return Extend(new) if told is self._known[-1] else Restart(new, after=told.number)

    def answered(self, said: Said) -> None:
        """What the program was answered."""
        self._known.append(Told(len(self._known), (*self._asked.said, said), self._asked.tools))


def longest(request: ChatRequest, known: Iterable[Told]) -> Told | None:
    """The one of these that a request goes on from and that says most; of several the one whose call it brings the result of, then the one
    that it repeats with its thoughts, then the last.
    """
    found = [told for told in known if told.tools == request.tools and _goes_on(request.said, told.said)]
    return max(found, key=lambda told: _fits(request.said, told), default=None)


def _fits(said: Sequence[Said], told: Told) -> tuple[int, bool, bool, int]:
    """Calls are named by the number of their answer; two answers may say the same."""
    size = len(told.said)
    return size, said[size].call.rpartition("_")[2] == str(told.number), said[size - 1] == told.said[-1], told.number


def later(said: Sequence[Said], known: Sequence[Said]) -> tuple[Message, ...]:
    """What was said after all that is known; nothing where another story is told, an answer of others in it, or no more."""
    return _alternating(said[len(known) :]) if _goes_on(said, known) else ()


def _goes_on(said: Sequence[Said], known: Sequence[Said]) -> bool:
    size = len(known)
    return (
        size < len(said) and all(one.role != "assistant" for one in said[size:]) and all(map(_same, reversed(said[:size]), reversed(known)))
    )


def _same(told: Said, known: Said) -> bool:
    """Is a message that was told the known one? Many clients leave out the thought that an answer begins with; it stays in the stream."""
    if told == known:
        return True
    spoken = told.role == known.role == "assistant" and told.calls == known.calls
    return spoken and told.content == aloud(known.content) != known.content


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
