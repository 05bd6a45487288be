"""What every trainer must hold, as one function that its author runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from patchgrad.contracts import Objective, Trained, Trainer
from patchgrad.values import Batch, MicroBatch, StepSettings, floats, ids

if TYPE_CHECKING:
    from torch import Tensor


STEP = StepSettings(1e-3)
MEASURES = ("ratio", "ratio_max", "ess", "kl1", "kl3")


def likelihood(tokens: Trained) -> tuple[Tensor, dict[str, Tensor]]:
    """The plainest objective: weighted negative log-likelihood."""
    return -(tokens.advantages * tokens.logprobs), {"nll": -tokens.logprobs.detach().sum()}


def check_trainer(make: Callable[[], Trainer], vocabulary: int, folder: Path, *, tolerance: float = 1e-5) -> None:
    """Raises `AssertionError` for the first rule that a trainer breaks; `make` gives a fresh one each time, equal to the last.

    One update is one version; repeated updates on one batch make it likelier; the way a batch is cut into micro-batches changes nothing
    beyond `tolerance`; tokens outside the mask have no gradient of their own; a token's weight multiplies its cost; log-probabilities are
    told without a change, and ratios to them are 1; draws from the softmax are not surprising; a step of rate 0 moves nothing; after
    `reset_optimiser` the next update is bitwise that of a fresh trainer; and after `load` it is bitwise the one that would have followed
    `save`.
    """
    whole, cut = example_batches(vocabulary)
    trainer = make()
    before = trainer.version
    losses = []
    for step in range(1, 9):
        update = trainer.update(whole, likelihood, STEP)
        assert update.version == trainer.version == before + step, "one update is one version"
        assert all(math.isfinite(value) for value in update.metrics.values()), "metrics are finite"
        losses.append(update.metrics["loss"])
    assert losses[-1] < losses[0], "training on one batch makes it likelier"
    _check_cut(make, whole, cut, tolerance)
    _check_weights(make, whole)
    _check_score(trainer, whole, cut)
    _check_excess(trainer, whole, cut, vocabulary)
    _check_reset(make, whole)
    _check_resume(make, trainer, whole, folder, likelihood)


def example_batches(vocabulary: int) -> tuple[Batch, Batch]:
    """The same two sequences of 24 and 9 tokens, as one micro-batch and as two."""
    random = np.random.default_rng(0)
    micro_batches = [_pack(random, length, vocabulary) for length in (24, 9)]
    names = [field.name for field in fields(MicroBatch) if field.name != "starts"]
    joined = {name: np.concatenate([getattr(micro_batch, name) for micro_batch in micro_batches]) for name in names}
    trained = int(joined["mask"].sum())
    return Batch((MicroBatch(starts=ids([0, 24, 33]), **joined),), trained, 2), Batch(tuple(micro_batches), trained, 2)


def _pack(random: np.random.Generator, length: int, vocabulary: int) -> MicroBatch:
    mask = np.arange(length) % 3 != 0
    uniform, ones = floats(np.where(mask, -math.log(vocabulary), 0.0)), floats(mask)
    return MicroBatch(
        tokens=ids(random.integers(0, vocabulary, length)),
        positions=ids(range(length)),
        starts=ids([0, length]),
        mask=mask,
        sampled=uniform,
        old=uniform,
        reference=uniform,
        advantages=ones,
        weights=ones,
    )


def _check_weights(make: Callable[[], Trainer], batch: Batch) -> None:
    doubled = replace(
        batch, micro_batches=tuple(replace(micro_batch, weights=2 * micro_batch.weights) for micro_batch in batch.micro_batches)
    )
    one, two = (make().update(given, likelihood, STEP).metrics for given in (batch, doubled))
    assert math.isclose(2 * one["loss"], two["loss"], rel_tol=1e-5), "a weight of 2 is twice the cost"
    assert math.isclose(2 * one["grad_norm"], two["grad_norm"], rel_tol=1e-4), "a weight of 2 is twice the gradient"


def _check_reset(make: Callable[[], Trainer], batch: Batch) -> None:
    """A step of rate 0 leaves momentum and nothing else; without it the trainer is as a fresh one."""
    trainer, fresh = make(), make()
    before = {name: tensor.clone() for name, tensor in trainer.weights().items()}
    trainer.update(batch, likelihood, StepSettings(0.0))
    trainer.reset_optimiser()
    assert all(bool((tensor == before[name]).all()) for name, tensor in trainer.weights().items()), "a step of rate 0 moves no weight"
    assert trainer.version == fresh.version + 1, "forgetting momentum is no update"
    trainer.update(batch, likelihood, STEP)
    fresh.update(batch, likelihood, STEP)
    for name, tensor in trainer.weights().items():
        assert bool((tensor == fresh.weights()[name]).all()), f"after a reset the update of {name} is not that of a fresh one"


def _check_score(trainer: Trainer, whole: Batch, cut: Batch) -> None:
    version, before = trainer.version, {name: tensor.clone() for name, tensor in trainer.weights().items()}
    (told,), parts = trainer.score(whole), trainer.score(cut)
    assert trainer.version == version, "telling log-probabilities is no update"
    assert all(bool((tensor == before[name]).all()) for name, tensor in trainer.weights().items()), "and changes no weight"
    (micro_batch,) = whole.micro_batches
    assert told.shape == micro_batch.tokens.shape, "there is a value for each token of a micro-batch"
    assert not told[~micro_batch.mask].any(), "a token that is not trained has none"
    assert (told[micro_batch.mask] < 0).all(), "a log-probability is below 0"
    assert np.allclose(told, np.concatenate(parts), atol=1e-4), "micro-batches change no log-probability"
    own = replace(whole, micro_batches=(replace(micro_batch, sampled=told, old=told),))
    update = trainer.update(own, likelihood, STEP)
    metrics, (read,) = update.metrics, update.readings
    assert metrics["logprob_diff"] < 1e-4, "the policy is what it said it was"
    assert np.allclose(read.logprobs, told[micro_batch.mask], atol=1e-4), "what an update reads are the log-probabilities before it"
    assert math.isclose(float(read.entropies.mean()), metrics["entropy"], rel_tol=1e-3), "and the entropies, whose mean it measures"
    for prefix in ("", "sampler_"):
        near = [metrics[prefix + name] for name in MEASURES]
        assert np.allclose(near, [1, 1, 1, 0, 0], atol=1e-3), "ratios to its own log-probabilities are 1"


def _check_excess(trainer: Trainer, whole: Batch, cut: Batch, vocabulary: int) -> None:
    """Over all tokens that could stand in one place, each as often as it is likely, the excess is 0 and its square the variance."""
    (micro_batch,) = whole.micro_batches
    place = int(micro_batch.mask.nonzero()[0][0])
    only = np.arange(len(micro_batch.tokens)) == place
    each = [replace(micro_batch, mask=only, tokens=ids(np.where(only, token, micro_batch.tokens))) for token in range(vocabulary)]
    chances = np.array([math.exp(trainer.score(Batch((one,), 1, 2))[0][place]) for one in each])
    told = np.array([trainer.nll_excess(Batch((one,), 1, 2)) for one in each])
    assert np.isclose(chances.sum(), 1, atol=1e-3), "the chances of all tokens add up to 1"
    assert abs(float(chances @ told[:, 0])) < 1e-3, "draws from the softmax are not surprising on average"
    assert np.allclose(chances @ told[:, 0] ** 2, told[:, 1], rtol=1e-2, atol=1e-4), "their excess varies as it says"
    assert np.allclose(trainer.nll_excess(whole), trainer.nll_excess(cut), rtol=1e-3, atol=1e-3), "micro-batches change no excess"


def _check_cut(make: Callable[[], Trainer], whole: Batch, cut: Batch, tolerance: float) -> None:
    one, two = make(), make()
    told, parts = one.update(whole, likelihood, STEP), two.update(cut, likelihood, STEP)
    first, second = told.metrics, parts.metrics
    assert math.isclose(first["loss"], second["loss"], rel_tol=1e-4), "micro-batches change no loss"
    assert math.isclose(first["grad_norm"], second["grad_norm"], rel_tol=1e-3), "micro-batches change no gradient"
    for name in ("logprobs", "entropies"):
        read = [np.concatenate([getattr(one, name) for one in update.readings]) for update in (told, parts)]
        assert np.allclose(read[0], read[1], atol=1e-4), f"micro-batches change no {name}, nor their order"
    for name, tensor in one.weights().items():
        apart = float((tensor - two.weights()[name]).abs().max())
        assert apart <= tolerance, f"micro-batches change the update of {name} by {apart}"


def _check_resume(make: Callable[[], Trainer], trainer: Trainer, batch: Batch, folder: Path, objective: Objective) -> None:
    trainer.save(folder)
    resumed = make()
    resumed.load(folder)
    assert resumed.version == trainer.version, "a checkpoint knows its version"
    trainer.update(batch, objective, STEP)
    resumed.update(batch, objective, STEP)
    for name, tensor in trainer.weights().items():
        assert bool((tensor == resumed.weights()[name]).all()), f"the update after a load differs in {name}"
