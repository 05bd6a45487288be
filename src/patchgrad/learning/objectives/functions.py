"""A user's function as an objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from patchgrad.contracts import Trained
from patchgrad.errors import ComponentError
from patchgrad.functions import calling, named, requires, wrong


@dataclass(frozen=True, slots=True)
class FunctionObjective:
    """What each trained token costs, by a function of `Trained` that gives the costs, or the costs and metrics as sums over tokens.

        def reinforce(tokens):
            return -tokens.advantages * tokens.logprobs

    The trainer weighs the costs and takes their mean. A metric `moved` is told of as `objective/moved`. Raises `ComponentError` for other
    arguments, and when it is called for one that fails, or gives costs of another shape, without a gradient, or that are not finite.
    """

    function: Callable[..., object]

    def __post_init__(self) -> None:
        requires(self.function, "objective", (1,), "tokens")

    def __call__(self, tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
        with calling("objective", self.function):
            found = self.function(tokens)
        costs, metrics = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        if not isinstance(costs, Tensor):
            raise wrong("objective", self.function, costs, "a tensor with the cost of each token, or that and metrics,")
        name = named(self.function)
        if costs.shape != tokens.logprobs.shape:
            told = f"{tuple(costs.shape)} for {len(tokens.logprobs)} tokens"
            raise ComponentError(
                f"The objective {name} returned costs of shape {told}: it is one cost a token, and the trainer adds them up."
            )
        if tokens.logprobs.requires_grad and not costs.requires_grad:
            raise ComponentError(f"The objective {name} returned costs without a gradient: they have to be computed from tokens.logprobs.")
        if not bool(torch.isfinite(costs.detach()).all()):
            raise ComponentError(
                f"The objective {name} returned a cost that is not finite; `contracts.LOG_RATIO` bounds the log of a ratio."
            )
        return costs, {f"objective/{key}": _tensor(name, key, value) for key, value in _metrics(self.function, metrics).items()}


def _metrics(function: object, metrics: object) -> Mapping[str, object]:
    if not isinstance(metrics, Mapping):
        raise wrong("objective", function, metrics, "a mapping of metrics beside the costs")
    return metrics


def _tensor(name: str, key: str, value: object) -> Tensor:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach()
    if isinstance(value, int | float):
        return torch.tensor(float(value))
    raise ComponentError(
        f"The objective {name} returned the metric {key} as {type(value).__name__}: a metric is one number, a sum over tokens."
    )
