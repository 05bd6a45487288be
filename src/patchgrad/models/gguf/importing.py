"""A GGUF file as a folder that transformers, vLLM and patchgrad open."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.models.gguf import file as files
from patchgrad.models.gguf import names, shape, vocabulary
from patchgrad.models.gguf.file import GgufFile
from patchgrad.models.new_folder import new_folder, refuse
from patchgrad.networks import shards
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.folder import describe, parameters


def folder_of(source: Path, out: Path, licence: Path | None = None) -> DecoderConfig:
    """Writes the folder `out`, which must not be there yet, and says what network it holds; a file with the weights' licence goes with it.

    Weights that the file holds in 16 bits keep them, all others become `float32`. The folder is there when it is whole. Raises
    `ConfigError` for an architecture, a type of numbers or a tokenizer that is not known, each by its name.
    """
    refuse(out)
    file = files.read(source)
    config, tokenizer = shape.read(file), vocabulary.read(file.said)
    pairs = _matched(file, config)
    with new_folder(out) as work:
        _settings(work, file, config)
        if licence is not None:
            shutil.copyfile(licence, work / "LICENSE")
        tokenizer.save(str(work / "tokenizer.json"))
        shards.write(work, _weights(file, config, pairs))
    return config


def _matched(file: GgufFile, config: DecoderConfig) -> list[tuple[str, str]]:
    """(GGUF's name, ours) of all tensors of the network; `ConfigError` where one lacks, is misshapen, or is nobody's."""
    otherwise = f"{file.said.source} does not match what it says of itself"
    expected = {name: tuple(size) for name, size in parameters(config, len(file.tensors), otherwise).items()}
    pairs = [(theirs, ours) for theirs, ours in names.of(config) if ours in expected]
    strange = sorted(file.tensors.keys() - {theirs for theirs, _ in pairs} - {shape.FACTORS})
    if strange:
        raise ConfigError(f"{file.said.source} has {strange[0]} and {len(strange) - 1} more, which the embedded network does not have")
    for theirs, ours in pairs:
        found = file.tensors.get(theirs)
        if found is None or tuple(int(size) for size in reversed(found.shape)) != expected[ours]:
            raise ConfigError(f"{otherwise}: {theirs} is missing or misshapen")
    return pairs


def _weights(file: GgufFile, config: DecoderConfig, pairs: list[tuple[str, str]]) -> Iterator[tuple[str, Tensor]]:
    for theirs, ours in pairs:
        yield ours, names.from_neighbours(theirs, file.tensor(theirs), config)


def _settings(folder: Path, file: GgufFile, config: DecoderConfig) -> None:
    """What stands beside the weights: shape, tokenizer's settings, neutral generation, and whose the weights are."""
    describe(folder, config)
    settings = json.dumps(vocabulary.settings(file.said), indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(settings + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_card(file))


def _card(file: GgufFile) -> str:
    """The model's card: its licence and name as the file tells them."""
    said = file.said
    licence, name = said.text("general.license", "unknown"), said.text("general.name", Path(said.source).stem)
    kinds = sorted({tensor.tensor_type.name for tensor in file.tensors.values()})
    head = f"---\nlicense: {licence}\n---\n# {name}\n\n"
    made = f"Made from `{Path(said.source).name}` (GGUF, {', '.join(kinds)}) by `patchgrad models import`."
    told = f"{made} The weights' licence is {licence}.\n"
    more = [f"- {key.removeprefix('general.')}: {value}" for key, value in said.content.items() if key in _TOLD]
    return head + told + ("\n" + "\n".join(more) + "\n" if more else "")


_TOLD = {"general.organization", "general.basename", "general.finetune", "general.size_label", "general.license.link", "general.source.url"}
