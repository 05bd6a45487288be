"""What every update measures: sums over tokens that add up over micro-batches and threads, and the largest of some."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from patchgrad.contracts import LOG_RATIO
from patchgrad.values import Batch, Readings, floats

PAIRS = ("", "sampler_")  # what stands before the measures of policy / old, and of old / sampled


@dataclass(slots=True)
class Tally:
    """Sums and largest values by name."""

    sums: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, value in other.largest.items():
            self.largest[name] = max(self.largest.get(name, value), value)

    def means(self, tokens: int) -> dict[str, float]:
        """Means per token, the largest values, and for each pair of policies the share of samples that its ratios are worth.

        Ratios of 1, 1 and 4 are worth (1 + 1 + 4)^2 / (3 (1 + 1 + 16)) = 2/3 of three.
        """
        means = {name: value / tokens for name, value in self.sums.items()}
        ess = {f"{pair}ess": min(means[f"{pair}ratio"] ** 2 / means.pop(f"{pair}ratio2"), 1.0) for pair in PAIRS}
        return means | self.largest | ess


def counts(batch: Batch, norm: float, rate: float, began: float) -> dict[str, float]:
    """What an update tells beside what it measured; it began at this time of `time.perf_counter`."""
    return {
        "grad_norm": norm,
        "rate": rate,
        "tokens": float(sum(len(micro_batch.tokens) for micro_batch in batch.micro_batches)),
        "trained": float(batch.trained),
        "sequences": float(batch.sequences),
        "seconds": time.perf_counter() - began,
        "skipped": float(not norm < float("inf")),
    }


def readings(logprobs: Tensor, entropy: Tensor) -> Readings:
    """What a pack's trained tokens were read as, arrays `[N]`, on the host."""
    return Readings(*(floats(part.detach().float().cpu().numpy()) for part in (logprobs, entropy)))


def tally(metrics: Mapping[str, Tensor], losses: Tensor, entropy: Tensor, logprobs: Tensor, old: Tensor, sampled: Tensor) -> Tally:
    """The measures of one pack's trained tokens, arrays `[N]`, beside what its objective reports; `contracts.Trainer` lists them.

    Text that nobody sampled has a log-probability of 0 where the sampler's stands: its policies do not differ.
    """
    logprobs, said = logprobs.detach(), sampled < 0
    own = {"loss": losses.sum(), "entropy": entropy.sum(), "logprob_diff": torch.where(said, logprobs - sampled, 0.0).abs().sum()}
    sums, largest = {**metrics, **own}, dict[str, Tensor]()
    for pair, above, below in zip(PAIRS, (logprobs, old), (old, sampled), strict=True):
        difference = torch.where(said, above - below, 0.0).clamp(-LOG_RATIO, LOG_RATIO)
        ratio = difference.exp()
        sums |= {
            f"{pair}ratio": ratio.sum(),
            f"{pair}ratio2": ratio.square().sum(),
            f"{pair}kl1": -difference.sum(),
            f"{pair}kl3": (ratio - 1 - difference).sum(),
        }
        if len(ratio):
            largest[f"{pair}ratio_max"] = ratio.max()
    return Tally({name: float(value) for name, value in sums.items()}, {name: float(value) for name, value in largest.items()})
