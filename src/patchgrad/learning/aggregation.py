"""How costs become one loss: the weight of each sample beside those in a mean over the trained tokens of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from patchgrad.contracts import Aggregate
from patchgrad.errors import ConfigError
from patchgrad.values import WeightedSample


def token_mean(samples: Sequence[WeightedSample]) -> list[float]:
    """The mean over all trained tokens: long attempts weigh more (DAPO 2503.14476; arXiv 2508.03501, section 4.3)."""
    return [1.0] * len(samples)


def seq_mean_token_mean(samples: Sequence[WeightedSample]) -> list[float]:
    """The mean over attempts of the mean over their tokens (GRPO 2402.03300, GSPO 2507.18071): a token of a long one weighs less."""
    return _alike(samples, [weighted.sample.attempt for weighted in samples])


def seq_mean_token_sum(samples: Sequence[WeightedSample]) -> list[float]:
    """The mean over attempts of the sum over their tokens: the gradient of an attempt's log-probability (Williams 1992)."""
    counts = _trained(samples, [weighted.sample.attempt for weighted in samples])
    return [counts.total() / len(counts) if counts else 0.0] * len(samples)


def seq_mean_token_sum_norm(constant: float) -> Aggregate:
    """The same divided by a constant, such as the tokens that an attempt may have (Dr. GRPO 2503.20783): no length weighs less."""
    if constant <= 0:
        raise ConfigError(f"seq-mean-token-sum-norm divides by {constant}; the constant must be above 0")
    return lambda samples: [weight / constant for weight in seq_mean_token_sum(samples)]


def group_mean_token_mean(samples: Sequence[WeightedSample]) -> list[float]:
    """The mean over groups of the mean over all of their tokens: Eq. 8 of arXiv 2508.03501 as it is written."""
    return _alike(samples, [weighted.sample.group for weighted in samples])


def _alike(samples: Sequence[WeightedSample], owners: Sequence[str]) -> list[float]:
    """Weights with which each owner counts as much as any other, however many tokens it has."""
    counts = _trained(samples, owners)
    return [counts.total() / (len(counts) * counts[owner]) if counts[owner] else 0.0 for owner in owners]


def _trained(samples: Sequence[WeightedSample], owners: Sequence[str]) -> Counter[str]:
    """How many trained tokens each owner has; one that has none is left out."""
    counts: Counter[str] = Counter()
    for sample, owner in zip(samples, owners, strict=True):
        counts[owner] += int(sample.trained.sum())
    return +counts
