"""What one rank of several holds: `python held_by_ranks.py RANK RANKS TOGETHER PORT`, with the port of a store that all of them meet at.

Prints the bytes of its parameters, gradients and moments, and those that it keeps for the backward pass of one long sequence that all ranks
share, or that each has for itself where none do.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.trainers.optimisers import AdamW
from patchgrad.trainers.sharded.network import local
from patchgrad.trainers.sharded.rank import Rank, Spec
from patchgrad.trainers.sharded.world import Meeting, join
from patchgrad.values import MicroBatch, floats, ids

CONFIG = DecoderConfig(256, hidden=64, layers=4, heads=4, kv_heads=4, head_size=16, intermediate=160, context=4096)
LENGTH = 2048


def main() -> None:
    number, ranks, together, port = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    place = join(number, Meeting("127.0.0.1", port, ranks, "cpu", (1, together), 60.0))
    rank = Rank(place, Spec(CONFIG, AdamW))
    with tempfile.TemporaryDirectory() as name:
        folder.save(Path(name), CONFIG, Decoder(CONFIG).state_dict())
        rank.fill(Path(name))
    random = np.random.default_rng(0)
    mask = np.arange(LENGTH) > 0
    tokens, zeros = ids(random.integers(0, 256, LENGTH)), floats(np.zeros(LENGTH))
    one = MicroBatch(tokens, ids(range(LENGTH)), ids([0, LENGTH]), mask, zeros, zeros, zeros, zeros, floats(mask))
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logprobs, _ = rank.forward(Decoder.logprobs, one, place.teams[together], "float32")
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in kept}  # a layer's weights are given up
    storages.pop(rank.network.head.untyped_storage().data_ptr())
    torch.autograd.backward(logprobs.sum())
    owned = (*rank.parameters.values(), *rank.optimiser.state().values())
    state = sum(local(tensor).nbytes for tensor in owned)
    sys.stdout.write(json.dumps({"state": state, "activations": sum(storages.values())}) + "\n")


if __name__ == "__main__":
    main()
