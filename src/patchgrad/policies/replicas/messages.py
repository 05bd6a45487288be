"""What a policy and its replicas say to each other.

policy  -> replica    Question(Open | Act | Load), Drop, Release, Piece
replica -> policy     Answer, Want
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchgrad.policies.publications import Published
from patchgrad.values import Ids, Sampling


@dataclass(frozen=True, slots=True)
class Where:
    """A publication: its folder on the machine that wrote it, its digest, and the bytes of its files."""

    folder: str
    digest: str
    files: Mapping[str, int]

    @classmethod
    def of(cls, published: Published) -> Where:
        """What a replica is told of it."""
        return cls(str(published.folder), published.digest, published.files)


@dataclass(frozen=True, slots=True)
class Open:
    """Make the policy: `maker`, as `package.module:name`, is called with a publication's folder and these options."""

    maker: str
    options: Mapping[str, Any]
    weights: Where


@dataclass(frozen=True, slots=True)
class Act:
    """Sample one turn."""

    session: str
    tokens: Ids
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Load:
    """Take over these weights; the answer is the digest of what was read."""

    weights: Where


@dataclass(frozen=True, slots=True)
class Question:
    """One of the three, by a number."""

    number: int
    content: Open | Act | Load


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question came to: a value, or the exception."""

    number: int
    value: Any
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Nobody waits for this answer any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Release:
    """A session is over."""

    session: str


@dataclass(frozen=True, slots=True)
class Want:
    """A part of a publication's file, which this machine does not see: so many bytes from this place on."""

    number: int
    path: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The part that was wanted; nothing where the file is gone."""

    number: int
    content: bytes
