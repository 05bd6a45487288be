"""Weights on their way to a server: a folder of their own for each version, in memory where the machine has room there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.contracts import Weights
from patchgrad.networks import folder as folders
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.folder import EMBEDDING, HEAD
from patchgrad.policies.tokenizers.chat import ChatTokenizer

if TYPE_CHECKING:
    from torch import Tensor


class Untied(Mapping[str, "Tensor"]):
    """Weights in which the embedding stands a second time, as the head; each is asked for when it is needed."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._head = weights[EMBEDDING].clone()

    def __getitem__(self, name: str) -> Tensor:
        return self._head if name == HEAD else self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._weights, HEAD)))

    def __len__(self) -> int:
        return len(self._weights) + (HEAD not in self._weights)


def written(home: Path, config: DecoderConfig, tokenizer: ChatTokenizer, weights: Weights) -> Path:
    """A fresh model folder with these weights.

    A head that is the embedding is written out: where a config says that they are one, `reload_weights` of vLLM 0.32 takes over the
    embedding, keeps the old head, and answers 200.
    """
    folder = Path(tempfile.mkdtemp(prefix="weights-", dir=home))
    try:
        folders.save(folder, replace(config, tied=False), Untied(weights) if config.tied else weights)
        tokenizer.save(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def roomy(weights: Weights) -> Path | None:
    """Memory that is a folder, where two sets of these weights have room there; else the usual place."""
    size, memory = sum(4 * weight.numel() for weight in weights.values()), Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 3 * size else None
