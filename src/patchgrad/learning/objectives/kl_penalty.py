"""A penalty for leaving another policy, estimated from the sampled tokens (Schulman 2020, joschu.net/blog/kl-approx).

With d = log(pi / other), and in the mean over tokens that pi itself sampled:

| estimator | cost            | in the mean     | its gradient, as a loss            | in the mean                          |
|-----------|-----------------|-----------------|------------------------------------|--------------------------------------|
| `k1`      | d               | KL(pi, other)   | that of log pi                     | 0: noise that pulls nowhere          |
| `k2`      | d^2 / 2         | near it, biased | d times that of log pi             | that of KL(pi, other): the right one |
| `k3`      | exp(-d) - 1 + d | KL(pi, other)   | (1 - exp(-d)) times that of log pi | that of KL(other, pi)                |

So a value without bias is no reason to be a loss (`k2` is the default). Tokens of an older policy bias each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from patchgrad.contracts import LOG_RATIO, Objective, Trained
from patchgrad.errors import ConfigError


def k1(difference: Tensor) -> Tensor:
    """d: the gradient has no direction."""
    return difference


def k2(difference: Tensor) -> Tensor:
    """d^2 / 2: the gradient of KL(pi, other)."""
    return difference.square() / 2


def k3(difference: Tensor) -> Tensor:
    """exp(-d) - 1 + d: the gradient of KL(other, pi), which forgives what the other policy would not say."""
    return (-difference).exp() - 1 + difference


ESTIMATORS = {"k1": k1, "k2": k2, "k3": k3}


@dataclass(frozen=True, slots=True)
class WithKlPenalty:
    """The costs of `objective`, plus `weight` times an estimate of the divergence from the old policy, or from the reference.

    The reference is the sampler unless samples were scored by another model (`learning.algorithm.Algorithm.reference`). Metric
    `kl_penalty`: the sum of the estimates, without the weight.
    """

    objective: Objective
    weight: float
    estimator: Literal["k1", "k2", "k3"] = "k2"
    to: Literal["old", "reference"] = "old"

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ConfigError(f"a penalty of weight {self.weight} would reward leaving the {self.to} policy; it must be 0 or more")

    def __call__(self, tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
        losses, metrics = self.objective(tokens)
        other = tokens.old if self.to == "old" else tokens.reference
        costs = ESTIMATORS[self.estimator]((tokens.logprobs - other).clamp(-LOG_RATIO, LOG_RATIO))
        return losses + self.weight * costs, {**metrics, "kl_penalty": costs.detach().sum()}
