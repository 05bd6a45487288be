"""Every objective against the contract."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.contracts.naming import named
from torch import Tensor

from patchgrad.contracts import Objective, Trained
from patchgrad.learning.objectives.cispo import Cispo, CispoTwoSided
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.functions import FunctionObjective
from patchgrad.learning.objectives.gspo import Gspo
from patchgrad.learning.objectives.kl_penalty import WithKlPenalty
from patchgrad.testing import check_objective


def reinforce(tokens: Trained) -> Tensor:
    """A user's objective."""
    return -tokens.advantages * tokens.logprobs


OBJECTIVES: tuple[Objective, ...] = (
    cross_entropy,
    Clipped(),
    Clipped(0.2, 0.2),
    Clipped(dual=3.0),
    Cispo(),
    CispoTwoSided(),
    Gspo(),
    FunctionObjective(reinforce),
    WithKlPenalty(Clipped(), 0.1),
    WithKlPenalty(cross_entropy, 0.1, "k1"),
    WithKlPenalty(Gspo(), 0.1, "k3", "reference"),
    WithKlPenalty(WithKlPenalty(Cispo(), 0.1, "k2", "reference"), 0.5, "k3"),
)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=named)
def test_an_objective_keeps_the_contract(objective: Objective) -> None:
    check_objective(objective)


def mean(tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Divides by the micro-batch's tokens, which is the trainer's to do."""
    return -tokens.advantages * tokens.logprobs / max(1, len(tokens.logprobs)), {}


def averaged(tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Tells a mean where a sum is asked for."""
    return -tokens.advantages * tokens.logprobs, {"nll": -tokens.logprobs.detach().sum() / max(1, len(tokens.logprobs))}


def test_an_objective_that_depends_on_its_micro_batch_is_found_out() -> None:
    with pytest.raises(AssertionError, match="a cut into micro-batches changes no cost"):
        check_objective(mean)
    with pytest.raises(AssertionError, match="nll is a sum over tokens"):
        check_objective(averaged)
