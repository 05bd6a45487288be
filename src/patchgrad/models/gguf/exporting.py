"""A model's folder as a GGUF file, which llama.cpp and what is built on it open."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from patchgrad.errors import ConfigError
from patchgrad.models.gguf import names, shape
from patchgrad.models.gguf.file import package
from patchgrad.models.gguf.vocabulary import CUTS, cut_of, types_of
from patchgrad.networks import folder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.scaling import Llama3
from patchgrad.policies.tokenizers.chat import ChatTokenizer

Numbers = Literal["F32", "F16", "BF16", "Q8_0"]


def file_of(source: Path, out: Path, numbers: Numbers = "F16") -> None:
    """Writes `out`, matrices in these numbers and vectors in `float32`; the file is there when it is whole.

    Raises `ConfigError` for a shape that GGUF cannot tell, for a tokenizer whose way to cut text has no name there, and for a file that is
    there already.
    """
    if numbers not in get_args(Numbers):
        raise ConfigError(f"{numbers} is no type that is written here: there are {', '.join(get_args(Numbers))}")
    if out.exists():
        raise ConfigError(f"{out} is there already: name another file")
    gguf, network = package(), folder.load(source)
    config, tokenizer = network.config, ChatTokenizer.load(source)
    architecture = "llama" if config.family == "mistral" else config.family
    told = {f"{architecture}.{key}": value for key, value in shape.written(config).items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, work = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}-")
    os.close(handle)
    try:
        writer = gguf.GGUFWriter(work, architecture)
        writer.add_type("model")
        writer.add_name(source.resolve().name)
        writer.add_file_type(gguf.LlamaFileType["ALL_F32" if numbers == "F32" else f"MOSTLY_{numbers}"])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        for key, value in told.items():
            _add(writer, key, value)
        _add_vocabulary(writer, tokenizer, config)
        state = dict(network.state_dict())
        if isinstance(config.scaling, Llama3):
            plain = shape.plain(config)
            writer.add_tensor(shape.FACTORS, (plain / config.frequencies).numpy())
        for theirs, ours in names.of(config):
            if ours in state:
                _add_tensor(writer, theirs, names.to_neighbours(theirs, state.pop(ours), config).float().contiguous().numpy(), numbers)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.chmod(work, 0o644)
        os.rename(work, out)
    except BaseException:
        Path(work).unlink(missing_ok=True)
        raise


def _add(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _add_tensor(writer: Any, name: str, tensor: np.ndarray[Any, Any], numbers: Numbers) -> None:
    gguf = package()
    kind = gguf.GGMLQuantizationType[numbers if tensor.ndim > 1 else "F32"]
    if kind.name == "Q8_0" and tensor.shape[-1] % 32:  # of which a block has so many
        kind = gguf.GGMLQuantizationType.F16
    data = gguf.quantize(tensor, kind)
    writer.add_tensor(name, data, raw_dtype=kind)


def _add_vocabulary(writer: Any, tokenizer: ChatTokenizer, config: DecoderConfig) -> None:
    """Tokens, their types, merges and template. Rows of the embedding that no token has get names, as llama.cpp wants each to have one."""
    whole: Mapping[str, Any] = json.loads(tokenizer.tokenizer.to_str())
    way = cut_of(whole)
    if way not in CUTS:
        raise ConfigError("the tokenizer cuts text in a way that has no name in GGUF: export a folder instead")
    pieces = {number: piece for piece, number in tokenizer.tokenizer.get_vocab(with_added_tokens=True).items()}
    tokens = [pieces.get(number, f"[PAD{number}]") for number in range(config.vocabulary)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(way)
    writer.add_token_list(tokens)
    writer.add_token_types(types_of(tokens, pieces, whole))
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in whole["model"]["merges"]])
    named = {piece: number for number, piece in pieces.items()}
    for name, add in (("bos", writer.add_bos_token_id), ("pad", writer.add_pad_token_id), ("unk", writer.add_unk_token_id)):
        if (piece := tokenizer.template.variables.get(f"{name}_token")) in named:
            add(named[piece])
    writer.add_eos_token_id(tokenizer.stop)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.template.text)
