"""Objectives: values worked out by hand, gradients by finite differences, and the identities between them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.objectives.tokens import LONG, OBJECTIVES, arrays, gradient, some, tokens

from patchgrad.contracts import Objective, Trained
from patchgrad.errors import ConfigError
from patchgrad.learning.objectives.cispo import Cispo, CispoTwoSided
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.gspo import Gspo

RATIOS = [0.5, -0.5, 0.1]
OLD = [-1.0, -2.0, -0.5]
NOW = [old + ratio for old, ratio in zip(OLD, RATIOS, strict=True)]
EVERY = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
few = settings(max_examples=20)  # for each of the objectives


@pytest.mark.parametrize(("advantage", "losses"), [(1.0, [-1.28, -0.606531, -1.105171]), (-1.0, [1.648721, 0.8, 1.105171])])
def test_the_clip_costs_what_the_formula_says(advantage: float, losses: list[float]) -> None:
    found, _ = Clipped(0.2, 0.28)(tokens(NOW, OLD, [advantage] * 3))
    assert found.tolist() == pytest.approx(losses, abs=1e-6)


def test_the_dual_clip_bounds_the_cost_of_a_bad_token() -> None:
    bad = tokens([math.log(4.0)], [0.0], [-1.0])
    losses, metrics = Clipped(0.2, 0.28, dual=3.0)(bad)
    assert losses.tolist() == [3.0]
    assert int(metrics["clip_dual"]) == 1
    assert gradient(Clipped(0.2, 0.28, dual=3.0), bad).tolist() == [0.0]


def test_metrics_are_sums_over_tokens_that_a_bound_silenced() -> None:
    _, metrics = Clipped(0.2, 0.28)(tokens(NOW, OLD, [1.0, -1.0, 1.0]))
    assert (int(metrics["clip_high"]), int(metrics["clip_low"])) == (1, 1)
    _, metrics = Clipped(0.2, 0.28)(tokens(NOW, OLD, [-1.0, 1.0, 1.0]))
    assert (int(metrics["clip_high"]), int(metrics["clip_low"])) == (0, 0)


def test_every_token_of_a_sequence_has_its_ratio() -> None:
    assert math.exp(sum(RATIOS) / 3) == pytest.approx(1.033895, abs=1e-6)
    losses, metrics = Gspo(0.2, 0.2)(tokens(NOW, OLD, [1.0, -1.0, 2.0]))
    assert losses.tolist() == pytest.approx([-1.033895, 1.033895, -2.06779], abs=1e-5)
    losses, metrics = Gspo(3e-4, 4e-4)(tokens(NOW, OLD, [1.0, 1.0, 1.0]))
    assert losses.tolist() == pytest.approx([-1.0004] * 3, abs=1e-6)
    assert int(metrics["clip_high"]) == 3


def test_sequences_of_one_pack_keep_to_themselves() -> None:
    both = tokens([*NOW, -3.0], [*OLD, -2.0], [1.0] * 4, sequences=[0, 0, 0, 1])
    alone = tokens(NOW, OLD, [1.0] * 3)
    assert Gspo(0.5, 0.5)(both)[0].tolist() == [*Gspo(0.5, 0.5)(alone)[0].tolist(), pytest.approx(-math.exp(-1))]


def test_a_bound_of_cispo_limits_a_weight_and_leaves_the_gradient() -> None:
    some = tokens([0.0, -3.0, -0.1], [-2.0, -2.0, -0.1], [1.0, 1.0, -1.0])
    assert gradient(Cispo(4.0), some).tolist() == pytest.approx([-5.0, -math.exp(-1), 1.0])
    assert gradient(CispoTwoSided(0.2, 0.28), some).tolist() == pytest.approx([-1.28, -0.8, 1.0])
    assert {name: int(value) for name, value in CispoTwoSided(0.2, 0.28)(some)[1].items()} == {"clip_low": 1, "clip_high": 1}
    assert gradient(Clipped(0.2, 0.28), some).tolist() == pytest.approx([0.0, -math.exp(-1), 1.0])


@pytest.mark.parametrize("name", ["reinforce", "grpo", "dapo", "dual", "dapo and k2", "dapo and k3 to a reference"])
def test_gradients_agree_with_finite_differences(name: str) -> None:
    given_ = tokens(NOW, OLD, [1.0, -1.0, -0.5], reference=[-0.7, -2.2, -0.9])
    logprobs = given_.logprobs.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: OBJECTIVES[name](replace(given_, logprobs=x))[0].sum(), (logprobs,))


@pytest.mark.parametrize(("objective", "bounds"), [(Cispo(1.2), (0.0, 2.2)), (CispoTwoSided(0.2, 0.28), (0.8, 1.28))])
@pytest.mark.parametrize("advantages", [[1.0, -1.0, -0.5], [-1.0, 1.0, 2.0]])
def test_cispo_has_the_finite_differences_of_its_formula_with_the_weight_held(
    objective: Objective, bounds: tuple[float, float], advantages: list[float]
) -> None:
    given_ = tokens([-0.1, -2.5, -0.4], [-1.0, -2.0, -0.5], advantages)
    held = [
        min(max(math.exp(now - old), bounds[0]), bounds[1]) for now, old in zip(given_.logprobs.tolist(), given_.old.tolist(), strict=True)
    ]

    def cost(at: list[float]) -> float:
        return -sum(weight * advantage * logprob for weight, advantage, logprob in zip(held, advantages, at, strict=True))

    now, step = given_.logprobs.tolist(), 1e-6
    moved = [[[value + way * step * (n == place) for n, value in enumerate(now)] for way in (1, -1)] for place in range(3)]
    numeric = [(cost(up) - cost(down)) / (2 * step) for up, down in moved]
    assert gradient(objective, given_).tolist() == pytest.approx(numeric, rel=1e-6)


def of_sequences(logprobs: torch.Tensor, given_: Trained, bound: float) -> torch.Tensor:
    """Eq. 5 of GSPO as it is written: for each sequence -min(s A, clip(s) A), A being that of its first token, and s with its gradient."""
    total = logprobs.new_zeros(())
    for number in set(given_.sequences.tolist()):
        own = given_.sequences == number
        ratio, advantage = (logprobs[own] - given_.old[own]).mean().exp(), given_.advantages[own][0]
        total = total - torch.minimum(ratio * advantage, ratio.clamp(1 - bound, 1 + bound) * advantage)
    return total


@pytest.mark.parametrize("bound", [0.01, 0.1, 0.9])
def test_the_formula_of_gspo_agrees_with_finite_differences(bound: float) -> None:
    given_ = tokens([*NOW, -1.0, -2.0], [*OLD, -1.2, -1.5], [1.0, 1.0, 1.0, -0.5, -0.5], sequences=[0, 0, 0, 1, 1])
    logprobs = given_.logprobs.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: of_sequences(x, given_, bound), (logprobs,))


@given(arrays(), st.sampled_from([0.05, 0.3]))
def test_gspo_s_tokens_have_the_gradient_of_its_formula(given_: Trained, bound: float) -> None:
    first = torch.tensor([given_.sequences.tolist().index(number) for number in given_.sequences.tolist()])
    alike = replace(given_, advantages=given_.advantages[first])
    logprobs = alike.logprobs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(of_sequences(logprobs, alike, bound), logprobs)
    counts = torch.bincount(alike.sequences)[alike.sequences]
    assert torch.allclose(gradient(Gspo(bound, bound), alike) / counts, expected, atol=1e-12)


@given(arrays(), st.floats(0.5, 6.0))
def test_cispo_is_reinforce_with_frozen_weights(given_: Trained, high: float) -> None:
    weights = (given_.logprobs - given_.old).exp().clamp(max=1 + high)
    assert torch.allclose(gradient(Cispo(high), given_), -weights * given_.advantages, atol=1e-12)


@EVERY
@few
@given(given_=arrays())
def test_at_ratio_one_every_objective_has_the_gradient_of_reinforce(objective: Objective, given_: Trained) -> None:
    same = replace(given_, logprobs=given_.old, reference=given_.old)
    assert torch.allclose(gradient(objective, same), -given_.advantages, atol=1e-12)


@EVERY
@few
@given(given_=arrays(), data=st.data())
def test_the_order_of_tokens_changes_no_cost(objective: Objective, given_: Trained, data: st.DataObject) -> None:
    order = torch.tensor(data.draw(st.permutations(range(len(given_.old)))))
    shuffled = some(given_, order)
    assert torch.allclose(objective(given_)[0][order], objective(shuffled)[0])
    assert torch.allclose(gradient(objective, given_)[order], gradient(objective, shuffled))


@EVERY
@few
@given(given_=arrays())
def test_a_sequence_costs_the_same_in_whatever_pack_it_is(objective: Objective, given_: Trained) -> None:
    losses, metrics = objective(given_)
    sums = dict.fromkeys(metrics, 0.0)
    for number in set(given_.sequences.tolist()):
        own = given_.sequences == number
        alone = replace(some(given_, own), sequences=torch.zeros(int(own.sum()), dtype=torch.int64))
        part, more = objective(alone)
        assert torch.allclose(part, losses[own])
        assert torch.allclose(gradient(objective, alone), gradient(objective, given_)[own])
        sums = {name: value + float(more[name]) for name, value in sums.items()}
    assert sums == pytest.approx({name: float(value) for name, value in metrics.items()})


@EVERY
def test_a_ratio_beyond_any_float_stays_finite(objective: Objective) -> None:
    far = tokens([-0.5, LONG], [LONG, -0.5], [-1.0, 1.0])
    losses, metrics = objective(far)
    assert all(math.isfinite(value) for value in (*losses.tolist(), *map(float, metrics.values())))
    assert all(math.isfinite(value) for value in gradient(objective, far).tolist())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Clipped(low=1.5), "clipped needs"),
        (lambda: Clipped(0.2, 0.28, dual=1.0), "dual above"),
        (lambda: Gspo(low=-1e-4), "gspo needs"),
        (lambda: Cispo(-1.0), "cispo needs"),
        (lambda: CispoTwoSided(1.0, 0.2), "cispo_two_sided needs"),
    ],
)
def test_bounds_that_cannot_work_are_refused(wrong: object, sentence: str) -> None:
    assert callable(wrong)
    with pytest.raises(ConfigError, match=sentence):
        wrong()
