"""Rows of a model folder's tensors, read without the tensors: what a rank that has a shard of a network opens."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.folder import EMBEDDING, HEAD, files


class Slices:
    """A folder's weights by name, open until it is closed; raises `ConfigError` for a file that is not whole."""

    def __init__(self, folder: Path) -> None:
        self._files: list[Any] = []
        self._of: dict[str, Any] = {}
        for path in files(folder):
            try:
                opened: Any = safe_open(path, "pt")
            except (OSError, SafetensorError) as error:
                self.close()
                raise ConfigError(f"{path} is not a whole safetensors file: copy it again") from error
            self._files.append(opened.__enter__())
            self._of |= dict.fromkeys(opened.keys(), opened)

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """Rows `[first:last]` of a tensor, as `float32`; of a head that is not there those of the embedding, and the other way round."""
        found = next((one for one in (name, {HEAD: EMBEDDING, EMBEDDING: HEAD}.get(name)) if one in self._of), None)
        if found is None:
            raise ConfigError(f"the model has no {name}")
        whole = self._of[found].get_slice(found)
        rows: Tensor = whole[first:last] if first < last else torch.empty(0, *whole.get_shape()[1:])
        return rows.float()

    def close(self) -> None:
        for opened in self._files:
            opened.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
