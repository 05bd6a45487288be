"""transformers' two ways to sample, with the network of ours opened by it: `generate`, and `generate_batch`, which batches continuously."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder
from patchgrad.values import Ids


def padded(model: Any, streams: Sequence[Ids], new: int) -> list[Any]:
    """What `generate` draws for all streams at once, padded on the left."""
    width = max(map(len, streams))
    inputs = torch.tensor(np.stack([np.pad(s, (width - len(s), 0)) for s in streams]).astype(np.int64))
    mask = torch.tensor(np.stack([np.arange(width) >= width - len(s) for s in streams]).astype(np.int64))
    out = model.generate(inputs, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=True, top_k=0, pad_token_id=0)
    return [row[width:].numpy() for row in out]


def continuous(model: Any, streams: Sequence[Ids], new: int) -> list[Any]:
    """The same by `generate_batch`."""
    from transformers import GenerationConfig

    made: Any = GenerationConfig
    settings = made(max_new_tokens=new, do_sample=True, top_k=0, eos_token_id=-1, pad_token_id=0)
    with torch.inference_mode(False):  # its tensors outlive a call
        found = model.generate_batch([s.tolist() for s in streams], generation_config=settings, progress_bar=False)
    if len(found) < len(streams):
        raise SystemExit(f"transformers' continuous batching answered {len(found)} of {len(streams)} requests: ask for fewer --rows.")
    by_order = sorted(found.values(), key=lambda one: int(str(one.request_id).rpartition("_")[2]))
    return [np.array(one.generated_tokens) for one in by_order]


def opened(network: Decoder) -> Any:
    """The network as transformers opens it."""
    import transformers

    with tempfile.TemporaryDirectory() as path:
        folder.save(Path(path), network.config, network.state_dict())
        return transformers.AutoModelForCausalLM.from_pretrained(path)
