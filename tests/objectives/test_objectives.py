"""Objectives: values worked out by hand, gradients by finite differences, and the identities between them."""

from __future__ import annotations

import math

import pytest
import torch

from patchgrad.contracts import Objective
from patchgrad.errors import ConfigError
from patchgrad.objectives.clipped import clipped
from patchgrad.objectives.cross_entropy import cross_entropy

RATIOS = torch.tensor([0.5, -0.5, 0.1], dtype=torch.float64)
OLD = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64)


@pytest.mark.parametrize(("advantage", "losses"), [(1.0, [-1.28, -0.606531, -1.105171]), (-1.0, [1.648721, 0.8, 1.105171])])
def test_the_clip_costs_what_the_formula_says(advantage: float, losses: list[float]) -> None:
    for index, expected in enumerate(losses):
        at = slice(index, index + 1)
        loss, _ = clipped(0.2, 0.28)((OLD + RATIOS)[at], OLD[at], torch.full((1,), advantage, dtype=torch.float64))
        assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_the_dual_clip_bounds_the_cost_of_a_bad_token() -> None:
    logprobs = torch.tensor([math.log(4.0)], requires_grad=True)
    loss, metrics = clipped(0.2, 0.28, dual=3.0)(logprobs, torch.zeros(1), -torch.ones(1))
    (gradient,) = torch.autograd.grad(loss, logprobs)
    assert float(loss.detach()) == 3.0
    assert int(metrics["clip_dual"]) == 1
    assert float(gradient) == 0.0


def test_metrics_are_sums_over_tokens() -> None:
    _, metrics = clipped(0.2, 0.28)(OLD + RATIOS, OLD, torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    ratios = [math.exp(x) for x in RATIOS.tolist()]
    assert int(metrics["clip_high"]) == 1
    assert int(metrics["clip_low"]) == 1
    assert float(metrics["ratio"]) == pytest.approx(sum(ratios))
    assert float(metrics["kl1"]) == pytest.approx(-0.1)
    assert float(metrics["kl3"]) == pytest.approx(sum(r - 1 - x for r, x in zip(ratios, RATIOS.tolist(), strict=True)))


@pytest.mark.parametrize("objective", [cross_entropy, clipped(0.2, 0.2), clipped(0.2, 0.28), clipped(0.2, 0.28, dual=3.0)])
def test_gradients_agree_with_finite_differences(objective: Objective) -> None:
    advantages = torch.tensor([1.0, -1.0, -0.5], dtype=torch.float64)
    logprobs = (OLD + RATIOS).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: objective(x, OLD, advantages)[0], (logprobs,))


@pytest.mark.parametrize("objective", [clipped(0.2, 0.2), clipped(0.2, 0.28, dual=3.0)])
def test_at_ratio_one_the_clip_is_reinforce(objective: Objective) -> None:
    advantages = torch.tensor([1.0, -1.0, 0.3], dtype=torch.float64)
    gradients = []
    for one in (objective, cross_entropy):
        logprobs = OLD.clone().requires_grad_()
        gradients.append(torch.autograd.grad(one(logprobs, OLD, advantages)[0], logprobs)[0])
    assert torch.equal(*gradients)


def test_a_ratio_beyond_any_float_stays_finite() -> None:
    loss, metrics = clipped()(torch.tensor([0.0]), torch.tensor([-500.0]), torch.tensor([-1.0]))
    assert math.isfinite(float(loss))
    assert math.isfinite(float(metrics["ratio2"]))


def test_bounds_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="clipped needs"):
        clipped(low=1.5)
    with pytest.raises(ConfigError, match="dual above"):
        clipped(0.2, 0.28, dual=1.0)
