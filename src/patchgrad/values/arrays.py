"""Arrays of tokens, and hashes over what is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import Field, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

NO_IDS: Ids = np.zeros(0, np.int32)
NO_IDS.setflags(write=False)


def ids(values: Iterable[int] | npt.NDArray[Any]) -> Ids:
    """Token ids as a read-only array: `ids([5, 7])` -> `array([5, 7], dtype=int32)`."""
    return frozen(np.array(list(values) if not isinstance(values, np.ndarray) else values, np.int32))


def floats(values: Iterable[float] | npt.NDArray[Any]) -> Floats:
    """Numbers per token as a read-only `float32` array."""
    return frozen(np.array(list(values) if not isinstance(values, np.ndarray) else values, np.float32))


def common(left: Ids, right: Ids) -> int:
    """The length of the longest common prefix: `common(ids([5, 7, 9]), ids([5, 7]))` is 2."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    return int(differs.argmax()) if differs.any() else size


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array, read-only from now on."""
    array.setflags(write=False)
    return array


def digest(*parts: bytes | str) -> str:
    """SHA-256 over the parts with their lengths, so that `digest("ab", "c") != digest("a", "bc")`."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def stored_as(name: str) -> dict[str, str]:
    """What a field says of itself whose name in files, and in the hash over them, is an older one."""
    return {"stored": name}


def stored_name(field: Field[Any]) -> str:
    """The name of a field in files."""
    return str(field.metadata.get("stored", field.name))


def stored(value: Any) -> dict[str, Any]:
    """The fields of a value by the names that they are stored under, as a hash takes them."""
    parts = {stored_name(field): getattr(value, field.name) for field in fields(value)}
    return {name: stored(part) if is_dataclass(part) else part for name, part in parts.items()}
