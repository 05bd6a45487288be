"""Log-probabilities in tiles against the plain softmax."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.networks import scoring


def plain(hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logs = torch.log_softmax(hidden @ head.T, -1)
    return logs.gather(1, targets[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40), st.integers(1, 90), st.integers(4, 400), st.integers(1, 16), st.integers(0, 9), st.sampled_from((0.1, 1.0, 30.0))
)
def test_whatever_the_tiles_they_are_those_of_the_softmax(
    rows: int, vocabulary: int, tile: int, least: int, seed: int, scale: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden, head = (scale * torch.randn(n, 7, dtype=torch.float64, generator=generator) for n in (rows, vocabulary))
    weights = torch.randn(rows, dtype=torch.float64, generator=generator)
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    hidden.requires_grad_()
    head.requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "TILE", tile)
        patch.setattr(scoring, "LEAST", least)
        chosen, entropy = scoring.logprobs(hidden, head, targets)
        gradients = torch.autograd.grad((weights * chosen).sum(), [hidden, head])
    expected, other = plain(hidden, head, targets)
    assert torch.allclose(chosen, expected, rtol=1e-9, atol=1e-9)
    assert torch.allclose(entropy, other, rtol=1e-9, atol=1e-9)
    for own, right in zip(gradients, torch.autograd.grad((weights * expected).sum(), [hidden, head]), strict=True):
        assert torch.allclose(own, right, rtol=1e-9, atol=1e-9)


def test_a_gradient_that_nobody_wants_is_not_made() -> None:
    hidden, head = torch.randn(3, 4, requires_grad=True), torch.randn(9, 4)
    chosen, entropy = scoring.logprobs(hidden, head, torch.tensor([0, 8, 3]))
    assert not entropy.requires_grad
    assert torch.autograd.grad(chosen.sum(), hidden)[0].shape == (3, 4)
    assert not head.requires_grad


def test_logits_far_apart_neither_overflow_nor_vanish() -> None:
    head = torch.tensor([[1000.0], [-1000.0], [999.0]])
    chosen, entropy = scoring.logprobs(torch.ones(2, 1), head, torch.tensor([0, 1]))
    assert chosen.tolist() == pytest.approx([-0.31326, -2000.31326], rel=1e-5)
    assert entropy.tolist() == pytest.approx([0.58220, 0.58220], rel=1e-4)


def test_of_no_rows_there_are_no_log_probabilities() -> None:
    hidden = torch.zeros(0, 4, requires_grad=True)
    chosen, entropy = scoring.logprobs(hidden, torch.randn(9, 4), torch.zeros(0, dtype=torch.int64))
    assert chosen.shape == entropy.shape == (0,)
    assert torch.autograd.grad(chosen.sum(), hidden)[0].shape == (0, 4)
