"""Policies of what was published: what a replica has in it. They are named in messages, and imported where they are made."""

from __future__ import annotations

from typing import Any

from patchgrad.contracts import TrainablePolicy
from patchgrad.networks import folder as folders
from patchgrad.policies.publications import Published
from patchgrad.policies.tokenizers.chat import ChatTokenizer

EMBEDDED = f"{__name__}:embedded"
VLLM = f"{__name__}:vllm"


def embedded(
    published: Published, *, context: int, rounds: bool | None = None, gpu: bool = False, share: float = 0.8, **options: Any
) -> TrainablePolicy:
    """Patchgrad's own sampler. On a GPU its caches take this share of what the weights leave.

    Where it is told whether products are faster in `bfloat16`, which `rounds` them (`networks/rounding.py`), all replicas draw alike.
    """
    import torch

    from patchgrad.networks.rounding import decide
    from patchgrad.policies.embedded import EmbeddedPolicy

    if rounds is not None:
        decide(rounds)
    network = folders.load(published.folder, context)
    if gpu:
        network.to("cuda")
        options["room"] = int(share * torch.cuda.mem_get_info()[0])
    made = EmbeddedPolicy(network, ChatTokenizer.load(published.folder), context=context, **options)
    made.load(published, published.version)  # each tensor's digest is looked at
    return made


def vllm(published: Published, **options: Any) -> TrainablePolicy:
    """A server of vLLM's below the replica's process."""
    from patchgrad.policies.vllm import VllmPolicy

    return VllmPolicy(folders.shape(published.folder), published, ChatTokenizer.load(published.folder), **options)
