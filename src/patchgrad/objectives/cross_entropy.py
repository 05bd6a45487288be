"""REINFORCE (Williams 1992), and with advantages of one supervised fine-tuning: the same line."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def cross_entropy(logprobs: Tensor, old: Tensor, advantages: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Sum of -A log pi over trained tokens, arrays `[N]`; `old` is not used.

    A = 1 is maximum likelihood; A = 0.2 on observation tokens is a weighted language-model loss. Metric `nll`: sum of -log pi.
    """
    return -(advantages * logprobs).sum(), {"nll": -logprobs.detach().sum()}
