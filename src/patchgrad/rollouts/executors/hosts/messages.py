"""What the process that trains and its hosts say to each other.

trains -> host    Work, Start, Reply, Withdraw, Leave
host -> trains    Ask, Drop, Done, Left
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """A function, `package.module:name`, and what all its calls share, before the first of them.

    `code` are files that parts are imported from, by their names below a folder.
    """

    work: int
    function: str
    shared: bytes
    code: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Start:
    """Call the function of this work with an item."""

    work: int
    item: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Leave:
    """End all calls of this work; `Left` is the answer."""

    work: int


@dataclass(frozen=True, slots=True)
class Left:
    """No call of this work goes on here."""

    work: int


@dataclass(frozen=True, slots=True)
class Done:
    """What a call came to: its result, or the exception that ended it."""

    work: int
    item: int
    result: bytes
    failed: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """A method of a part that stays with the process that trains."""

    number: int
    work: int
    part: int
    method: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """Nobody waits for this answer any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to what was asked: a value, or the exception."""

    number: int
    value: bytes
    failed: bool
