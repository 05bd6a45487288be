"""REINFORCE (Williams 1992), and with advantages of one supervised fine-tuning: the same line."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from patchgrad.contracts import Trained


def cross_entropy(tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
    """-A log pi of each trained token; no ratio, so what was sampled by other weights is taken for the policy's own.

    A = 1 is maximum likelihood; A = 0.2 on observation tokens is a weighted language-model loss. Metric `nll`: sum of -log pi.
    """
    return -(tokens.advantages * tokens.logprobs), {"nll": -tokens.logprobs.detach().sum()}
