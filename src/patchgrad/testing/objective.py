"""What every objective must hold, as one function that its author runs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from patchgrad.contracts import Objective, Trained

if TYPE_CHECKING:
    from torch import Tensor

LENGTHS = (5, 1, 4, 7)
CLOSE = 1e-5


@dataclass(frozen=True, slots=True)
class _Found:
    """What an objective says of a micro-batch: its costs, its metrics, and the gradient of the sum of the costs."""

    costs: Tensor
    metrics: dict[str, float]
    gradient: Tensor


def check_objective(objective: Objective) -> None:
    """Raises `AssertionError` for the first rule that an objective breaks.

    There is a finite cost for each trained token, whose gradient is finite too, however far policies are apart; metrics are finite sums
    over tokens; it makes no difference how sequences are put together in micro-batches, nor in which order; a micro-batch without a trained
    token costs nothing; nothing that it was given is changed; and a pickled copy says the same.
    """
    for apart in (0.0, 0.1, 1.0, 100.0):
        _check_batch(objective, apart)
    nothing = _asked(objective, _tokens((), 0.0))
    assert all(value == 0 for value in nothing.metrics.values()), "without a token every metric is 0"


def _check_batch(objective: Objective, apart: float) -> None:
    import torch

    whole = _tokens(LENGTHS, apart)
    found = _asked(objective, whole)
    copy: Objective = pickle.loads(pickle.dumps(objective))
    same = _asked(copy, whole)
    assert torch.equal(same.costs, found.costs), "a pickled copy has the same costs"
    assert same.metrics == found.metrics, "a pickled copy has the same metrics"
    parts = [_asked(objective, _part(whole, sequences)) for sequences in ((0, 1), (2,), (3,))]
    _check_alike(found, torch.cat([part.costs for part in parts]), torch.cat([part.gradient for part in parts]), "a cut into micro-batches")
    assert all(part.metrics.keys() == found.metrics.keys() for part in parts), "every micro-batch has the same metrics"
    for name, value in found.metrics.items():
        assert np.isclose(sum(part.metrics[name] for part in parts), value, rtol=1e-4, atol=1e-4), f"{name} is a sum over tokens"
    turned = _asked(objective, _part(whole, (3, 2, 1, 0)))
    order = torch.cat([torch.nonzero(whole.sequences == one).flatten() for one in (3, 2, 1, 0)])
    back = torch.argsort(order)
    _check_alike(found, turned.costs[back], turned.gradient[back], "the order of sequences")
    gaps = Trained(whole.logprobs, whole.old, whole.reference, whole.advantages, 2 * whole.sequences + 1)
    spread = _asked(objective, gaps)
    _check_alike(found, spread.costs, spread.gradient, "a sequence without a trained token")


def _check_alike(found: _Found, costs: Tensor, gradient: Tensor, what: str) -> None:
    import torch

    assert torch.allclose(costs, found.costs, rtol=CLOSE, atol=CLOSE), f"{what} changes no cost"
    assert torch.allclose(gradient, found.gradient, rtol=CLOSE, atol=CLOSE), f"{what} changes no gradient"


def _tokens(lengths: tuple[int, ...], apart: float) -> Trained:
    """Trained tokens of sequences of these lengths; the policies' log-probabilities are about so far apart."""
    import torch

    random, count = np.random.default_rng(len(lengths)), sum(lengths)
    base = -random.exponential(1.0, count) - 0.01

    def near() -> Tensor:
        return torch.tensor(base + apart * random.normal(size=count), dtype=torch.float32).clamp(max=0.0)

    advantages = torch.tensor(random.choice([-1.0, -0.3, 0.0, 0.5, 2.0], count), dtype=torch.float32)
    sequences = torch.tensor(np.repeat(np.arange(len(lengths)), lengths), dtype=torch.int64)
    return Trained(near(), near(), near(), advantages, sequences)


def _part(tokens: Trained, sequences: tuple[int, ...]) -> Trained:
    """These sequences alone, in this order, and numbered anew."""
    import torch

    places = [torch.nonzero(tokens.sequences == one).flatten() for one in sequences]
    order = torch.cat(places)
    numbers = torch.cat([torch.full((len(place),), number) for number, place in enumerate(places)])
    return Trained(tokens.logprobs[order], tokens.old[order], tokens.reference[order], tokens.advantages[order], numbers)


def _asked(objective: Objective, tokens: Trained) -> _Found:
    """What the objective says, and that it is costs, metrics and a gradient as they should be."""
    import torch

    given = (tokens.logprobs.clone(), tokens.old.clone(), tokens.reference.clone(), tokens.advantages.clone())
    leaf = tokens.logprobs.clone().requires_grad_()
    costs, metrics = objective(Trained(leaf, tokens.old, tokens.reference, tokens.advantages, tokens.sequences))
    assert costs.shape == leaf.shape, f"there is one cost for each of {len(leaf)} trained tokens, not {tuple(costs.shape)}"
    assert bool(torch.isfinite(costs).all()), "costs are finite"
    assert all(value.ndim == 0 for value in metrics.values()), "a metric is one number"
    assert not any(value.requires_grad for value in metrics.values()), "metrics carry no gradient"
    told = {name: float(value) for name, value in metrics.items()}
    assert all(np.isfinite(value) for value in told.values()), "metrics are finite"
    (gradient,) = torch.autograd.grad(costs.sum(), leaf)
    assert bool(torch.isfinite(gradient).all()), "gradients are finite"
    after = (leaf.detach(), tokens.old, tokens.reference, tokens.advantages)
    assert all(map(torch.equal, given, after)), "an objective changes nothing that it was given"
    return _Found(costs.detach(), told, gradient)
