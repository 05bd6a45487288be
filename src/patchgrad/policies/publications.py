"""Weights on their way to samplers: a model folder for each version, written a layer at a time, with a digest of every tensor."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgrad.contracts import Weights
from patchgrad.errors import PolicyFault
from patchgrad.networks import folder as folders
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.folder import EMBEDDING, HEAD
from patchgrad.policies.tokenizers.chat import ChatTokenizer

if TYPE_CHECKING:
    from torch import Tensor

MANIFEST = "manifest.json"
"""Written last: a folder without it is no publication."""

LAYER = re.compile(r"\.layers\.(\d+)\.")


class Published(Mapping[str, "Tensor"]):
    """The weights of a folder, read one by one as they are asked for. `digest` is of them all and the version.

    Raises `PolicyFault` where there is no publication, or a tensor is not the one that was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            told: Mapping[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            raise PolicyFault(f"{folder} has no whole {MANIFEST}: {error}") from error
        self.version: int = told["version"]
        self.digest: str = told["digest"]
        self._digests: Mapping[str, str] = told["tensors"]

    @cached_property
    def files(self) -> Mapping[str, int]:
        """What the folder holds, and how many bytes each."""
        return {path.name: path.stat().st_size for path in sorted(self.folder.iterdir())}

    @cached_property
    def _places(self) -> Mapping[str, str]:
        index: Mapping[str, Mapping[str, str]] = json.loads((self.folder / f"{folders.WHOLE}.index.json").read_bytes())
        return index["weight_map"]

    def __getitem__(self, name: str) -> Tensor:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.folder / self._places[name], "pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise PolicyFault(f"{name} of version {self.version} cannot be read: {error}") from error
        if digest(tensor) != self._digests[name]:
            raise PolicyFault(f"{name} of version {self.version} is not what was published: its digest differs")
        return tensor

    def check(self) -> None:
        """Reads every tensor once; `PolicyFault` for the first one that is not what was written."""
        for name in self:
            self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)


class Publications:
    """Writes versions below `home`. A head that is the embedding is written a second time where `untied`.

    Where a config says that they are one, `reload_weights` of vLLM 0.32 takes over the embedding, keeps the old head, and answers 200.
    """

    def __init__(self, home: Path, config: DecoderConfig, tokenizer: ChatTokenizer, *, untied: bool = False) -> None:
        self.home, self._tokenizer = home, tokenizer
        self._untied = untied and config.tied
        self._config = replace(config, tied=False) if self._untied else config
        self._written: list[Path] = []

    def publish(self, weights: Weights, version: int) -> Published:
        """A fresh folder with these weights; one layer of them at a time is in memory besides."""
        folder = Path(tempfile.mkdtemp(prefix=f"{version}-", dir=self.home))
        try:
            folders.describe(folder, self._config)
            self._tokenizer.save(folder)
            self._write(folder, weights, version)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._written.append(folder)
        return Published(folder)

    def keep(self, count: int) -> None:
        """Removes all but the newest so many."""
        while len(self._written) > count:
            shutil.rmtree(self._written.pop(0), ignore_errors=True)

    def _write(self, folder: Path, weights: Weights, version: int) -> None:
        from safetensors.torch import save_file

        digests, places, size = dict[str, str](), dict[str, str](), 0
        groups = layers([*dict.fromkeys((*weights, HEAD))] if self._untied else list(weights))
        for number, names in enumerate(groups, 1):
            tensors = {name: self._tensor(weights, name) for name in names}
            path = f"model-{number:05}-of-{len(groups):05}.safetensors"
            save_file(tensors, folder / path, metadata={"format": "pt"})
            digests |= {name: digest(tensor) for name, tensor in tensors.items()}
            places |= dict.fromkeys(names, path)
            size += sum(tensor.nbytes for tensor in tensors.values())
        whole = hashlib.blake2b(json.dumps([version, digests], sort_keys=True).encode(), digest_size=16).hexdigest()
        _put(folder / f"{folders.WHOLE}.index.json", {"metadata": {"total_size": size}, "weight_map": places})
        _put(folder / MANIFEST, {"version": version, "digest": whole, "tensors": digests})

    def _tensor(self, weights: Weights, name: str) -> Tensor:
        if self._untied and name == HEAD:
            return weights[EMBEDDING].detach().cpu().clone()
        return weights[name].detach().cpu().contiguous()


def layers(names: list[str]) -> list[list[str]]:
    """Names of weights by their layer, those of none first: what is written to a file each.

    >>> layers(["head", "model.layers.0.a", "model.layers.0.b", "model.layers.1.a"])
    [['head'], ['model.layers.0.a', 'model.layers.0.b'], ['model.layers.1.a']]
    """
    found: dict[int, list[str]] = {}
    for name in names:
        match = LAYER.search(name)
        found.setdefault(int(match[1]) if match else -1, []).append(name)
    return [found[layer] for layer in sorted(found)]


def digest(tensor: Tensor) -> str:
    """Of a tensor's bytes, its kind and its shape."""
    import torch

    found = hashlib.blake2b(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), digest_size=16)
    found.update(tensor.flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def _put(path: Path, content: Mapping[str, Any]) -> None:
    """Whole, or not at all: another process may look for it."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    new.replace(path)
