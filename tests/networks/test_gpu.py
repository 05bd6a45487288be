"""On a GPU the same comes out in float32 as on a CPU: attention of a pack, a step of training, what the sampler reads page by page.

The kernel that reads pages itself, in bfloat16, is held against that in `test_paged.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.device import DeviceDecoder
from patchgrad.networks.packed import LONG, within
from patchgrad.networks.prefixes import Node
from patchgrad.testing.trainer import example_batches
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import StepSettings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here")

CONFIG = DecoderConfig(90, hidden=64, layers=2, heads=4, kv_heads=2, head_size=16, intermediate=96)
NODES = (Node(40), Node(25, (0,)), Node(60, (0,)), Node(10, (0, 2)), Node(30))


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_attention_over_a_tree_and_its_gradients(kv_heads: int) -> None:
    generator, count = torch.Generator().manual_seed(0), sum(node.length for node in NODES)
    given = [torch.randn(count, heads, 16, generator=generator) for heads in (4, kv_heads, kv_heads)]
    told: list[list[Tensor]] = []
    for device in ("cpu", "cuda"):
        q, k, v = (part.to(device).requires_grad_() for part in given)
        out = within(NODES)(0, q, k, v)
        told.append([one.cpu() for one in (out, *torch.autograd.grad(out.square().sum(), (q, k, v)))])
    for one, other in zip(*told, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_attention_over_a_long_sequence_whose_kernel_is_another_one() -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    given = [torch.randn(LONG, heads, 64, device="cuda", generator=generator).bfloat16().requires_grad_() for heads in (4, 2, 2)]
    whole = within((Node(LONG),))(0, *given)
    halves = within((Node(LONG // 2), Node(LONG // 2, (0,))))(0, *given)
    torch.testing.assert_close(whole, halves, rtol=0.02, atol=0.02)
    one, other = (torch.autograd.grad(out.square().sum(), given) for out in (whole, halves))
    for left, right in zip(one, other, strict=True):
        assert (left - right).norm() < 0.02 * right.norm()


@pytest.mark.parametrize("offload", [False, True])
def test_a_step_of_training(offload: bool) -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    here = LocalTrainer(Decoder(CONFIG), optimiser="adamw")
    there = LocalTrainer(Decoder(CONFIG), optimiser="adamw", offload=offload, device=torch.device("cuda"))
    for _ in range(2):
        one, other = (trainer.update(batch, cross_entropy, StepSettings(1e-3)).metrics for trainer in (here, there))
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-3)


@torch.inference_mode()
def test_what_the_sampler_reads() -> None:
    network = Decoder(CONFIG)
    tokens, places = np.arange(50, dtype=np.int32), np.arange(50)
    logits = []
    sides: list[Any] = [CachedDecoder(network, 256), DeviceDecoder(Decoder(CONFIG).cuda(), 256, 1 << 24)]
    for decoder in sides:
        cache = decoder.cache(1)
        cache.grow(np.array([0]), np.array([50]))
        logits.append(decoder.run(cache, tokens, np.zeros(50, np.int64), places, places).cpu())
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-3, atol=1e-3)
