"""Trained tokens for tests of objectives, in float64, and the objectives that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from patchgrad.contracts import Objective, Trained
from patchgrad.learning.objectives.cispo import Cispo, CispoTwoSided
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.gspo import Gspo
from patchgrad.learning.objectives.kl_penalty import WithKlPenalty

LONG = -500.0  # a log-probability that no float has an exponential for
OBJECTIVES: Mapping[str, Objective] = {
    "reinforce": cross_entropy,
    "grpo": Clipped(0.2, 0.2),
    "dapo": Clipped(0.2, 0.28),
    "dual": Clipped(0.2, 0.28, dual=3.0),
    "gspo": Gspo(),
    "gspo, wide": Gspo(0.2, 0.2),
    "cispo": Cispo(),
    "cispo, two-sided": CispoTwoSided(),
    "dapo and k2": WithKlPenalty(Clipped(0.2, 0.28), 0.1, "k2"),
    "dapo and k3 to a reference": WithKlPenalty(Clipped(0.2, 0.28), 0.1, "k3", "reference"),
}


def tokens(
    logprobs: Sequence[float],
    old: Sequence[float],
    advantages: Sequence[float],
    sequences: Sequence[int] | None = None,
    reference: Sequence[float] | None = None,
) -> Trained:
    """Tokens of one sequence, unless said otherwise, whose reference is the old policy."""
    numbers = [0] * len(logprobs) if sequences is None else sequences
    return Trained(
        torch.tensor(logprobs, dtype=torch.float64),
        torch.tensor(old, dtype=torch.float64),
        torch.tensor(old if reference is None else reference, dtype=torch.float64),
        torch.tensor(advantages, dtype=torch.float64),
        torch.tensor(numbers, dtype=torch.int64),
    )


def gradient(objective: Objective, given: Trained) -> Tensor:
    """What the sum of costs changes by with each log-probability."""
    logprobs = given.logprobs.clone().requires_grad_()
    losses, _ = objective(replace(given, logprobs=logprobs))
    (found,) = torch.autograd.grad(losses.sum(), logprobs)
    return found


def some(given: Trained, at: Tensor) -> Trained:
    """The tokens at these places, in this order."""
    return Trained(given.logprobs[at], given.old[at], given.reference[at], given.advantages[at], given.sequences[at])


@st.composite
def arrays(draw: st.DrawFn) -> Trained:
    """One to four sequences of one to five tokens."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    size = sum(lengths)
    numbers = st.lists(st.floats(-4, -0.01), min_size=size, max_size=size)
    advantages = draw(st.lists(st.floats(-2, 2), min_size=size, max_size=size))
    sequences = [number for number, length in enumerate(lengths) for _ in range(length)]
    return tokens(draw(numbers), draw(numbers), advantages, sequences, draw(numbers))
