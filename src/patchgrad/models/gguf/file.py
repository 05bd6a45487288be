"""A GGUF file, of one part or several: what it says, and its tensors as numbers. The package `gguf` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from patchgrad.errors import ConfigError, MissingDependency
from patchgrad.networks.settings import Settings

_PART = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_AS_THEY_ARE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class GgufFile:
    """`said` are its keys and values, `tensors` what `tensor` is asked for by name."""

    said: Settings
    tensors: dict[str, Any]

    def tensor(self, name: str) -> Tensor:
        """A tensor's numbers, `[out, in]`: in 16 bits where they stand so in the file, else in `float32`.

        Raises `ConfigError` for a type that the package cannot turn into numbers.
        """
        found = self.tensors[name]
        kind = found.tensor_type.name
        try:
            numbers = torch.from_numpy(package().dequantize(found.data, found.tensor_type).copy())
        except (NotImplementedError, ValueError) as error:
            raise ConfigError(
                f"{name} in {self.said.source} is of type {kind}, which gguf cannot turn into numbers: take another file"
            ) from error
        shape = tuple(int(size) for size in reversed(found.shape))
        return numbers.reshape(shape).to(_AS_THEY_ARE.get(kind, torch.float32))


def read(path: Path) -> GgufFile:
    """A file with all its parts, which lie beside it; `ConfigError` for what is no whole GGUF file."""
    said: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for part in reversed(list(_parts(path))):  # the first tells the most
        keys, held = _read(part)
        said |= keys
        tensors = held | tensors
    return GgufFile(Settings(said, str(path)), tensors)


def _parts(path: Path) -> Iterator[Path]:
    named = _PART.fullmatch(path.name)
    if named is None:
        yield path
        return
    for number in range(1, int(named["count"]) + 1):
        part = path.with_name(f"{named['name']}-{number:05}-of-{named['count']}.gguf")
        if not part.is_file():
            raise ConfigError(f"{path} is one of {int(named['count'])} parts, and {part.name} does not lie beside it")
        yield part


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys and tensors of one part."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    gguf = package()
    try:
        reader = gguf.GGUFReader(path)
        return {name: field.contents() for name, field in reader.fields.items()}, {tensor.name: tensor for tensor in reader.tensors}
    except Exception as error:  # what it raises on a broken file is whatever came of reading it
        raise ConfigError(f"{path} is not a whole GGUF file: copy it again ({type(error).__name__})") from error


def package() -> ModuleType:
    """The package `gguf`; `MissingDependency` where it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise MissingDependency("GGUF files need one more package: pip install 'patchgrad[gguf]'") from error
    return gguf
