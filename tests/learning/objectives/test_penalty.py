"""The three estimators of a divergence: their values, and in the mean over what a policy samples the gradients that they have as losses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.learning.objectives.tokens import arrays, gradient, tokens
from torch import Tensor

from patchgrad.contracts import Trained
from patchgrad.errors import ConfigError
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.kl_penalty import WithKlPenalty, k1, k2, k3

Distributions = tuple[Tensor, Tensor]
logits = st.lists(st.floats(-2, 2), min_size=4, max_size=4)
distributions = st.tuples(logits, logits).map(lambda pair: (torch.tensor(pair[0], dtype=torch.float64), torch.tensor(pair[1]).double()))


def divergence(above: Tensor, below: Tensor) -> Tensor:
    return (above.exp() * (above - below)).sum()


def in_the_mean(estimator: Callable[[Tensor], Tensor], own: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient, by the logits, over all tokens as often as the policy samples them."""
    variable = own.clone().requires_grad_()
    said = variable.log_softmax(0)
    costs = estimator(said - other.log_softmax(0))
    mean = (said.detach().exp() * costs).sum()
    (found,) = torch.autograd.grad(mean, variable)
    return mean.detach(), found


def exactly(of: Callable[[Tensor, Tensor], Tensor], own: Tensor, other: Tensor) -> Tensor:
    variable = own.clone().requires_grad_()
    (found,) = torch.autograd.grad(of(variable.log_softmax(0), other.log_softmax(0)), variable)
    return found


@given(distributions)
def test_k1_as_a_loss_pulls_nowhere(given_: Distributions) -> None:
    value, found = in_the_mean(k1, *given_)
    assert torch.allclose(value, divergence(given_[0].log_softmax(0), given_[1].log_softmax(0)), atol=1e-9)
    assert torch.allclose(found, torch.zeros(4, dtype=torch.float64), atol=1e-9)


@given(distributions)
def test_k2_as_a_loss_pulls_as_the_divergence_from_the_other_policy_does(given_: Distributions) -> None:
    assert torch.allclose(in_the_mean(k2, *given_)[1], exactly(divergence, *given_), atol=1e-9)


@given(distributions)
def test_k3_as_a_loss_pulls_as_the_divergence_of_the_other_policy_does(given_: Distributions) -> None:
    value, found = in_the_mean(k3, *given_)
    assert torch.allclose(value, divergence(given_[0].log_softmax(0), given_[1].log_softmax(0)), atol=1e-9)
    assert torch.allclose(found, exactly(lambda own, other: divergence(other, own), *given_), atol=1e-9)


def test_values_of_a_log_ratio_of_a_half() -> None:
    half = torch.tensor([0.5], dtype=torch.float64)
    assert [float(estimate(half)) for estimate in (k1, k2, k3)] == pytest.approx([0.5, 0.125, 0.106531], abs=1e-6)


@pytest.mark.parametrize("estimate", [k1, k2, k3])
def test_gradients_agree_with_finite_differences(estimate: Callable[[torch.Tensor], torch.Tensor]) -> None:
    difference = torch.tensor([-1.5, -0.1, 0.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(estimate, (difference,))


@given(arrays(), st.sampled_from(["k1", "k2", "k3"]), st.sampled_from(["old", "reference"]))
def test_a_penalty_is_added_and_without_weight_it_is_none(given_: Trained, name: str, to: str) -> None:
    plain = Clipped()
    losses, metrics = WithKlPenalty(plain, 0.5, name, to)(given_)  # type: ignore[arg-type]
    difference = given_.logprobs - (given_.old if to == "old" else given_.reference)
    costs = {"k1": k1, "k2": k2, "k3": k3}[name](difference)
    assert torch.allclose(losses, plain(given_)[0] + 0.5 * costs)
    assert float(metrics["kl_penalty"]) == pytest.approx(float(costs.sum()))
    none = WithKlPenalty(plain, 0.0, name, to)  # type: ignore[arg-type]
    assert torch.equal(none(given_)[0], plain(given_)[0])
    assert torch.equal(gradient(none, given_), gradient(plain, given_))


def test_who_did_not_move_pays_nothing_and_pulls_nowhere() -> None:
    still = tokens([-1.0, -2.0], [-1.0, -2.0], [0.0, 0.0])
    for name in ("k2", "k3"):
        objective = WithKlPenalty(Clipped(), 1.0, name)
        assert objective(still)[0].tolist() == [0.0, 0.0]
        assert gradient(objective, still).tolist() == [0.0, 0.0]


def test_a_reward_for_leaving_is_refused() -> None:
    with pytest.raises(ConfigError, match="reward leaving"):
        WithKlPenalty(Clipped(), -0.1)
