"""Weights written a file at a time, so that a model never stands in memory whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from patchgrad.networks.folder import WHOLE

MOST = 4 << 30  # bytes of a file


def write(folder: Path, tensors: Iterable[tuple[str, Tensor]], most: int = MOST) -> None:
    """`model.safetensors`, or as many numbered files as it takes and the index that names them, as transformers writes them."""
    held: dict[str, Tensor] = {}
    files: list[list[str]] = []

    def put() -> None:
        save_file(held, folder / f"part-{len(files)}", metadata={"format": "pt"})
        (folder / f"part-{len(files)}").chmod(0o644)
        files.append(list(held))
        held.clear()

    for name, tensor in tensors:
        if held and sum(one.nbytes for one in held.values()) + tensor.nbytes > most:
            put()
        held[name] = tensor.contiguous()
    put()
    if len(files) == 1:
        (folder / "part-0").rename(folder / WHOLE)
        return
    named: dict[str, str] = {}
    for number, names in enumerate(files):
        file = f"model-{number + 1:05}-of-{len(files):05}.safetensors"
        (folder / f"part-{number}").rename(folder / file)
        named |= dict.fromkeys(names, file)
    (folder / f"{WHOLE}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": named}, indent=2) + "\n")
