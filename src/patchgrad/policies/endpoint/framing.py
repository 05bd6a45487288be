"""A conversation as ids, and back: three bytes of text an id, about what a token holds, so that limits in ids mean something.

    [SYSTEM, "You", " ar", "e a", ".", STOP, USER, "ls?", STOP, ASSISTANT]

The stream says all of itself, so a fork and a resumed run need no memory of it. Text cannot forge a mark: marks are ids beyond all pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from patchgrad.errors import PolicyFault
from patchgrad.values import Action, Ids, Message, ids, well_formed

PIECE = 3
_FIRST = (1 << 24, 1 << 25, 1 << 26)  # pieces of 2, 1 and 0 bytes begin there, those of 3 at 0
Role = Literal["system", "user", "assistant"]
MARKS: Mapping[Role, int] = {"system": 1 << 27, "user": (1 << 27) + 1, "assistant": (1 << 27) + 2}
STOP = (1 << 27) + 3
_ROLES = {mark: role for role, mark in MARKS.items()}


def spell(text: str) -> list[int]:
    """At least one id, so that even saying nothing is an action. Text is told `well_formed`."""
    data = well_formed(text).encode()
    return [_piece(data[at : at + PIECE]) for at in range(0, max(1, len(data)), PIECE)]


def encode(messages: Sequence[Message], previous: Action | None) -> Ids:
    """The ids that append these messages and open the assistant's turn; an action that was cut is ended first."""
    found = [STOP] if previous is not None and previous.finish == "length" else []
    for message in messages:
        found += [MARKS[message.role], *spell(message.content), STOP]
    return ids([*found, MARKS["assistant"]])


def read(stream: Ids) -> list[Message]:
    """The messages of a stream that ends with the assistant's turn open; `PolicyFault` for anything else."""
    found: list[tuple[Role, bytearray]] = []
    inside = False
    for number in stream.tolist():
        if number in _ROLES and not inside:
            found.append((_ROLES[number], bytearray()))
            inside = True
        elif number == STOP and inside:
            inside = False
        elif inside and number < 1 << 27:
            found[-1][1].extend(_bytes(number))
        else:
            raise PolicyFault(f"a stream of {len(stream)} ids is no conversation that this policy has spelled")
    if not inside or found[-1] != ("assistant", bytearray()):
        raise PolicyFault("a conversation ends with the assistant's turn open, and this one does not")
    return [Message(role, content.decode(errors="replace")) for role, content in found[:-1]]


def added(context: Ids, previous: Action | None) -> list[Message]:
    """The messages that `encode` made a context of; of one that follows a `previous` action that was cut the first id ends that."""
    return read(context[1:] if previous is not None and previous.finish == "length" else context)


def _piece(data: bytes) -> int:
    value = int.from_bytes(data, "big")
    return value if len(data) == PIECE else _FIRST[PIECE - 1 - len(data)] + value


def _bytes(number: int) -> bytes:
    size = PIECE - sum(number >= first for first in _FIRST)
    return (number - (_FIRST[PIECE - 1 - size] if size < PIECE else 0)).to_bytes(size, "big")
