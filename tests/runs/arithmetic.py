"""A digest of what a run computes: planted heads, steps of a trainer in both optimisers, and tokens that a sampler then draws.

Run as a program it prints that digest. `test_instructions.py` runs it with the instructions that every processor has.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.threads import one_thread
from patchgrad.policies.embedded.draws import Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.runs.demonstrations.induction import plant
from patchgrad.testing.trainer import example_batches
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Sampling, StepSettings, digest, ids

SHAPE = DecoderConfig(400, hidden=256, layers=2, heads=4, kv_heads=2, head_size=64, intermediate=512)


def drawn(network: Decoder, rows: Sequence[int]) -> list[bytes]:
    """The tokens of streams that are drawn together, each with its log-probabilities."""
    found = dict[str, bytes]()
    with torch.inference_mode(), one_thread():
        sampler = Sampler(CachedDecoder(network, 128), sessions=7, rows=7, eos=frozenset())
        sampler.admit([Request(str(row), ids(range(3, 20 + row)), Sampling(40, seed=row), 40) for row in rows])
        while sampler.busy:
            found |= {one.request.session: one.tokens.tobytes() + one.logprobs.tobytes() for one in sampler.step()}
    return [found[str(row)] for row in rows]


def computed() -> str:
    """The digest, in hexadecimal digits."""
    torch.set_num_threads(2)
    parts = []
    for optimiser in ("adamw", "muon"):
        torch.manual_seed(7)
        network = Decoder(SHAPE)
        plant(network, seed=1)
        trainer = LocalTrainer(network, optimiser=optimiser)
        for _ in range(4):
            trainer.update(example_batches(SHAPE.vocabulary)[1], Clipped(0.2, 0.28), StepSettings(1e-2))
        parts += [parameter.detach().numpy().tobytes() for parameter in network.parameters()]
        beside, alone = drawn(network, range(7)), [one for row in range(7) for one in drawn(network, [row])]
        assert beside == alone, "what runs beside a stream changes nothing in it"
        parts += beside
    return digest(*parts)


if __name__ == "__main__":
    sys.stdout.write(f"{computed()}\n")
