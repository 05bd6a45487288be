"""GSPO (2507.18071): the clip on the ratio of whole sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from patchgrad.contracts import LOG_RATIO, Trained
from patchgrad.errors import ConfigError
from patchgrad.learning.objectives.clipped import surrogate


@dataclass(frozen=True, slots=True)
class Gspo:
    """Per token -min(s A, clip(s, 1 - low, 1 + high) A), where s = exp(mean of log(pi / old) over the tokens of its sequence).

    Each token carries s as sg[s] pi / sg[pi], sg being the stop of a gradient: its value is s and its gradient s times that of its own
    log pi, so that averaged over a sequence (`seq-mean-token-mean`) this is the gradient of the sequence's -min(s A, clip(s) A), while
    every token may have an advantage of its own (the paper's GSPO-token). A sequence is a segment, with its trained tokens: what the
    policy wrote in one context. s moves little, hence the narrow bounds. Metrics, as sums: `clip_low` and `clip_high`, tokens whose
    gradient a bound removed.

    Log ratios .5, -.5 and .1 are s = 1.033895 at all three tokens.
    """

    low: float = 3e-4
    high: float = 4e-4

    def __post_init__(self) -> None:
        if self.low < 0 or self.high < 0 or self.low >= 1:
            raise ConfigError("gspo needs 0 <= low < 1 and 0 <= high")

    def __call__(self, tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
        difference = (tokens.logprobs - tokens.old).detach()
        none = difference.new_zeros(int(tokens.sequences.max()) + 1 if len(difference) else 0)
        sums = none.index_add(0, tokens.sequences, difference)
        counts = none.index_add(0, tokens.sequences, torch.ones_like(difference))
        mean = (sums / counts)[tokens.sequences]  # a micro-batch's sequence without trained tokens is 0 / 0, which nobody asks for
        ratio = (mean.clamp(-LOG_RATIO, LOG_RATIO) + tokens.logprobs - tokens.logprobs.detach()).exp()
        return surrogate(ratio, tokens.advantages, self.low, self.high)
