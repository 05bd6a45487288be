"""A model as a folder that transformers opens too: `config.json`, `model.safetensors`, `generation_config.json`.

Only safetensors are read: a pickle can run code, so a folder that has nothing else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from patchgrad.errors import ConfigError, MissingDependency
from patchgrad.networks.decoder import Decoder, DecoderConfig


def save(folder: Path, config: DecoderConfig, state: Mapping[str, Tensor]) -> None:
    """Writes config and weights; generation settings are neutral, so that samples elsewhere follow the policy's own softmax."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", config.to_json())
    neutral: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    _write(folder / "generation_config.json", neutral | ({"eos_token_id": list(config.eos)} if config.eos else {}))
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def shape(source: str | Path) -> DecoderConfig:
    """What a folder's `config.json` says, or a hub id's; raises `ConfigError` for what this network cannot compute.

    Of a hub's repository nothing else is fetched.
    """
    folder = Path(source)
    config = folder / "config.json" if folder.is_dir() else _fetched(source, lambda hub: hub.hf_hub_download(source, "config.json"))
    if not config.is_file():
        raise ConfigError(f"{folder} is no model folder: it has no config.json")
    return DecoderConfig.from_json(_read(config))


def load(source: str | Path, context: int = 0, yarn: float = 1.0) -> Decoder:
    """Reads a folder, or a hub id such as `Qwen/Qwen3-0.6B`, as float32; raises `ConfigError` for anything but safetensors.

    With a `context` it has to read so many positions, stretched by a factor of `yarn` where that is above 1.
    """
    folder = locate(source)
    network = Decoder(shape(folder).reaching(context, yarn))
    state = tensors(folder)
    if network.config.tied:
        state.pop("lm_head.weight", None)
    expected = {name: parameter.shape for name, parameter in network.named_parameters()}
    wrong = sorted(n for n in expected.keys() | state.keys() if n not in state or expected.get(n) != state[n].shape)
    if wrong:
        raise ConfigError(f"{folder} does not match its config.json: {wrong[0]} and {len(wrong) - 1} more are missing or misshapen")
    network.load_state_dict(state)
    return network


def tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, from one file or from the shards of an index."""
    index = folder / "model.safetensors.index.json"
    names = sorted(set(_read(index)["weight_map"].values())) if index.is_file() else ["model.safetensors"]
    if any(Path(name).name != name for name in names):
        raise ConfigError(f"{index} names a shard outside its folder")
    if not all((folder / name).is_file() for name in names):
        raise ConfigError(f"{folder} has no safetensors weights; convert them first, because other formats can run code when opened")
    merged: dict[str, Tensor] = {}
    for name in names:
        try:
            merged |= load_file(folder / name)
        except SafetensorError as error:
            raise ConfigError(f"{folder / name} is not a whole safetensors file: copy it again") from error
    return merged


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


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a JSON object")
    return content


def count(network: Decoder) -> int:
    """The number of trained values."""
    return sum(parameter.numel() for parameter in network.parameters())
