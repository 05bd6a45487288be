"""What travels to a host, what stays here and is asked from there, and of what a host has one of its own.

shared = (harness, policy)
harness.journal, policy, refusals          -> stay: there is one writer, and one who draws; the host has a stand-in that asks
encode of a policy of text                 -> a copy, with the policy where it is a method of it
harness.sandboxes, grade, cache, tokenizer -> kept: the host makes one when it first arrives, and has it as long as it lives
the archive of a task                      -> its digest: the host asks for the file unless it has it
everything else                            -> a copy
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from patchgrad.contracts import Journal, Policy, TrainablePolicy
from patchgrad.errors import Refusals
from patchgrad.values import Repository

Mark = tuple[Any, ...]
"""What stands for a part on its way: `("policy", 3, version, context, tokenizer)`."""


class Sender:
    """Pickles for hosts. Of parts that keep one of the contracts `kept`, or are of such a type, a host has one of its own."""

    def __init__(self, kept: Sequence[type[Any]] = ()) -> None:
        self._kept = tuple(kept)
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[int, object]] = {}
        self._parts: dict[int, object] = {}
        self._ways: dict[type[Any], str] = {}
        self.archives: set[str] = set()

    def pack(self, value: object) -> bytes:
        """The value for a host. Raises what pickle raises for what cannot travel."""
        return self._packed(value, None)

    def part(self, number: int) -> Any:
        """The part that stays, by the number that it travelled under."""
        return self._parts[number]

    def mark(self, value: object, inside: object) -> Mark | None:
        """What stands for the value, where it does not travel as it is; it does where it is what is packed."""
        if value is inside:
            return None
        if isinstance(value, Repository):
            return self._archive(value) if value.kind == "archive" and os.path.isfile(value.location) else None
        part: Any = value
        match self._way(type(value)):
            case "policy":
                return "policy", self._number(part), part.version, part.context, self._packed(part.tokenizer, None)
            case "text":
                return "text", self._number(part), part.version, part.context, plain(part.encode)
            case "journal":
                return "journal", self._number(part), part.keeps
            case "refusals":
                return "refusals", self._number(part)
            case "kept":
                return "kept", self._number(part), self._packed(part, part)
        return None

    def _way(self, kind: type[Any]) -> str:
        """How values of a type travel; looked up once, as each value of a task or a turn is asked about."""
        if kind not in self._ways:
            ways: dict[str, tuple[type[Any], ...]] = {
                "policy": (TrainablePolicy,),
                "text": (Policy,),
                "journal": (Journal,),
                "refusals": (Refusals,),
                "kept": self._kept,
            }
            found = (way for way, contracts in ways.items() if any(fits(kind, contract) for contract in contracts))
            self._ways[kind] = next(found, "copied")
        return self._ways[kind]

    def _packed(self, value: object, inside: object) -> bytes:
        out = io.BytesIO()
        _Packer(out, self, inside).dump(value)
        return out.getvalue()

    def _archive(self, repository: Repository) -> Mark:
        self.archives.add(repository.location)
        return "archive", repository.location, repository.digest, repository.patch

    def _number(self, part: object) -> int:
        """The same for the same part, which is held, so that no other one gets its place in memory."""
        number, _ = self._known.setdefault(id(part), (next(self._numbers), part))
        self._parts[number] = part
        return number


def fits(kind: type[Any], contract: type[Any]) -> bool:
    """Has a type the members of a contract, or is it of that type? Its instances are not looked at."""
    if not getattr(contract, "_is_protocol", False):
        return issubclass(kind, contract)
    members = {name for one in contract.__mro__ for name in vars(one) if not name.startswith("_")}
    return members <= set(dir(kind))


class _Packer(cloudpickle.Pickler):
    def __init__(self, out: io.BytesIO, sender: Sender, inside: object) -> None:
        super().__init__(out, protocol=pickle.HIGHEST_PROTOCOL)
        self._sender, self._inside = sender, inside

    def persistent_id(self, value: object) -> Mark | None:
        return self._sender.mark(value, self._inside)


class _Unpacker(pickle.Unpickler):
    def __init__(self, content: io.BytesIO, made: Callable[[Mark], object]) -> None:
        super().__init__(content)
        self._made = made

    def persistent_load(self, mark: Mark) -> object:
        return self._made(mark)


def unpacked(content: bytes, made: Callable[[Mark], object]) -> Any:
    """A value as it is on a host, where `made` gives what stands for a part."""
    return _Unpacker(io.BytesIO(content), made).load()


def plain(value: object) -> bytes:
    """A value in which no part is marked, as it goes back."""
    packed: bytes = cloudpickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return packed
