"""A model as a folder that transformers opens too: `config.json`, `model.safetensors`, `generation_config.json`.

Only safetensors are read: a pickle can run code, so a folder that has nothing else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from patchgrad.errors import ConfigError, MissingDependency
from patchgrad.networks import described, lora
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.settings import Settings

WHOLE = "model.safetensors"
ADAPTER = "adapter"
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
COMPUTED = ".rotary_emb.inv_freq"  # what older checkpoints hold beside the weights, and everybody computes of config.json


def save(folder: Path, config: DecoderConfig, state: Mapping[str, Tensor]) -> None:
    """Writes config and weights."""
    describe(folder, config)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / WHOLE, metadata={"format": "pt"})


def describe(folder: Path, config: DecoderConfig) -> None:
    """Writes what stands beside weights; generation settings are neutral, so that samples elsewhere follow the policy's own softmax."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", described.written(config))
    neutral: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    _write(folder / "generation_config.json", neutral | ({"eos_token_id": list(config.eos)} if config.eos else {}))


def shape(source: str | Path) -> DecoderConfig:
    """What a folder's `config.json` says, or a hub id's, with the ends of a turn from the `generation_config.json` beside it.

    Raises `ConfigError` for a key that is missing or of the wrong type, and for what this network cannot compute. Of a hub's repository
    nothing but `config.json` is fetched.
    """
    folder = Path(source)
    config = folder / "config.json" if folder.is_dir() else _fetched(source, lambda hub: hub.hf_hub_download(source, "config.json"))
    if not config.is_file():
        raise ConfigError(f"{folder} is no model folder: it has no config.json")
    beside = config.with_name("generation_config.json")
    return described.read(Settings.read(config), Settings.read(beside) if beside.is_file() else Settings({}, str(beside)))


def load(source: str | Path, context: int = 0, yarn: float = 1.0) -> Decoder:
    """Reads a folder, or a hub id such as `Qwen/Qwen3-0.6B`, as float32; raises `ConfigError` for anything but safetensors.

    With a `context` it has to read so many positions, stretched by a factor of `yarn` where that is above 1. A head that differs from the
    embedding stays apart from it, whatever `config.json` says of the two.
    """
    folder = locate(source)
    told, state = shape(folder).reaching(context, yarn), tensors(folder)
    told = replace(told, tied=told.tied and _one(state))
    _match(told, state, folder)
    network = Decoder(told)
    network.load_state_dict(state)
    return network


def _match(told: DecoderConfig, state: Mapping[str, Tensor], folder: Path) -> None:
    """`ConfigError` where the tensors are not those of this shape; found out without memory for a network that may not be one."""
    expected = parameters(told, len(state), f"{folder} does not match its config.json")
    wrong = {
        "missing": expected.keys() - state.keys(),
        "of another shape": {name for name in expected.keys() & state.keys() if expected[name] != state[name].shape},
        "nothing that such a network has": state.keys() - expected.keys(),
    }
    told_of = [_counted(sorted(names), kind) for kind, names in wrong.items() if names]
    if told_of:
        raise ConfigError(f"{folder} does not match its config.json: {'; '.join(told_of)}")


def _counted(names: list[str], kind: str) -> str:
    """`_counted(["a", "b"], "missing")` is `a and 1 more are missing`."""
    return f"{names[0]} and {len(names) - 1} more are {kind}" if len(names) > 1 else f"{names[0]} is {kind}"


def parameters(told: DecoderConfig, held: int, otherwise: str) -> dict[str, torch.Size]:
    """What a network of this shape is made of, by its names in transformers.

    Raises `ConfigError`, which begins with `otherwise`, where a file that holds so many tensors cannot be of a network so deep or so wide:
    nothing is made of a size that a file only tells.
    """
    if told.layers > held:
        raise ConfigError(f"{otherwise}: it has not the weights of {told.layers} layers")
    try:
        with torch.device("meta"):
            return {name: parameter.shape for name, parameter in Decoder(told).named_parameters()}
    except (RuntimeError, TypeError, OverflowError) as error:  # torch counts a tensor's numbers in 64 bits
        raise ConfigError(f"{otherwise}: it tells of matrices that are larger than any") from error


def _one(state: dict[str, Tensor]) -> bool:
    """Are head and embedding one tensor? Then it stands there once, as the embedding: transformers takes either for both."""
    head, embedding = state.get(HEAD), state.get(EMBEDDING)
    if head is not None and embedding is not None and not torch.equal(head.float(), embedding.float()):
        return False
    if head is not None:
        state[EMBEDDING] = state.pop(HEAD)
    return True


def tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder: those of `model.safetensors` where there is one, as for transformers, else of the shards of an index.

    Frequencies of rotary positions are left out. Of a checkpoint that has adapters alone, those of the model that they are for, with the
    adapters added. Raises `ConfigError` beside an adapter, which transformers would add to them.
    """
    if (folder / "adapter_config.json").is_file():
        raise ConfigError(f"{folder} holds an adapter: merge it into the weights, or take adapter_config.json away")
    if (folder / ADAPTER / lora.CONFIG).is_file() and not (folder / WHOLE).is_file():
        return _adapted(folder)
    merged: dict[str, Tensor] = {}
    for path in files(folder):
        try:
            merged |= load_file(path)
        except SafetensorError as error:
            raise ConfigError(f"{path} is not a whole safetensors file: copy it again") from error
    return {name: tensor for name, tensor in merged.items() if not name.endswith(COMPUTED)}


def files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights; `ConfigError` where one is missing."""
    names = [WHOLE] if (folder / WHOLE).is_file() else _shards(folder / f"{WHOLE}.index.json")
    lacking = [name for name in names if not (folder / name).is_file()]
    if lacking == [WHOLE]:
        raise ConfigError(f"{folder} has no safetensors weights; convert them first, because other formats can run code when opened")
    if lacking:
        raise ConfigError(f"{folder} lacks {lacking[0]}, which the index of its weights names: copy it again")
    return [folder / name for name in names]


def _adapted(folder: Path) -> dict[str, Tensor]:
    """The tensors of the model that a checkpoint's adapters are for, with these added."""
    base = lora.base_of(folder / ADAPTER)
    try:
        state = tensors(locate(base))
    except ConfigError as error:
        raise ConfigError(f"{folder} holds adapters of the model {base}, which is needed too: {error}") from error
    _one(state)
    return lora.added(state, folder / ADAPTER)


def _shards(index: Path) -> list[str]:
    """The files that an index names, or the one file that stands in for it."""
    if not index.is_file():
        return [WHOLE]
    named = Settings.read(index).part("weight_map").content.values()
    if not named or not all(isinstance(name, str) and Path(name).name == name for name in named):
        raise ConfigError(f"{index} must name files of its own folder in weight_map: copy it again")
    return sorted(set(named))


def locate(source: str | Path) -> Path:
    """The folder itself, or a download of the hub repository that the text names: weights, JSON and templates only."""
    folder = Path(source)
    if folder.is_dir():
        return folder
    return _fetched(source, lambda hub: hub.snapshot_download(source, allow_patterns=["*.safetensors", "*.json", "*.jinja"]))


def _fetched(source: str | Path, fetch: Callable[[Any], str]) -> Path:
    """What of a hub's repository lies here now."""
    if isinstance(source, Path) or source.count("/") != 1 or source.startswith((".", "/", "~")):
        raise ConfigError(f"there is no model folder at {source}")
    try:
        import huggingface_hub as hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingDependency("models from the hub need one more package: pip install 'patchgrad[hub]'") from error
    try:
        return Path(fetch(hub))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ConfigError(f"{source} is neither a folder nor a model that the hub gives out: {type(error).__name__}") from error


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def count(network: Decoder) -> int:
    """The number of trained values."""
    return sum(parameter.numel() for parameter in network.parameters())
