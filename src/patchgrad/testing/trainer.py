"""What every trainer must hold, as one function that its author runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from patchgrad.contracts import Objective, Trainer
from patchgrad.values import Batch, Pack, floats, ids

if TYPE_CHECKING:
    from torch import Tensor


def likelihood(logprobs: Tensor, old: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The plainest objective: weighted negative log-likelihood."""
    return -(advantages * logprobs).sum(), {"nll": -logprobs.detach().sum()}


def check_trainer(make: Callable[[], Trainer], vocabulary: int, folder: Path, *, tolerance: float = 1e-5) -> None:
    """Raises `AssertionError` for the first rule that a trainer breaks; `make` gives a fresh one each time, equal to the last.

    One update is one version; repeated updates on one batch make it likelier; the way a batch is cut into packs changes nothing
    beyond `tolerance`; tokens outside the mask have no gradient of their own; and after `load` the next update is bitwise the one
    that would have followed `save`.
    """
    whole, cut = example_batches(vocabulary)
    trainer = make()
    before = trainer.version
    losses = []
    for step in range(1, 9):
        update = trainer.update(whole, likelihood)
        assert update.version == trainer.version == before + step, "one update is one version"
        assert all(math.isfinite(value) for value in update.metrics.values()), "metrics are finite"
        losses.append(update.metrics["loss"])
    assert losses[-1] < losses[0], "training on one batch makes it likelier"
    _check_cut(make, whole, cut, tolerance)
    _check_resume(make, trainer, whole, folder, likelihood)


def example_batches(vocabulary: int) -> tuple[Batch, Batch]:
    """The same two sequences of 24 and 9 tokens, as one pack and as two."""
    random = np.random.default_rng(0)
    packs = [_pack(random, length, vocabulary) for length in (24, 9)]
    joined = {
        name: np.concatenate([getattr(pack, name) for pack in packs]) for name in ("tokens", "positions", "mask", "logprobs", "advantages")
    }
    trained = int(joined["mask"].sum())
    return Batch((Pack(starts=ids([0, 24, 33]), **joined),), trained, 2), Batch(tuple(packs), trained, 2)


def _pack(random: np.random.Generator, length: int, vocabulary: int) -> Pack:
    mask = np.arange(length) % 3 != 0
    return Pack(
        tokens=ids(random.integers(0, vocabulary, length)),
        positions=ids(range(length)),
        starts=ids([0, length]),
        mask=mask,
        logprobs=floats(np.where(mask, -math.log(vocabulary), 0.0)),
        advantages=floats(np.where(mask, 1.0, 0.0)),
    )


def _check_cut(make: Callable[[], Trainer], whole: Batch, cut: Batch, tolerance: float) -> None:
    one, two = make(), make()
    first, second = one.update(whole, likelihood).metrics, two.update(cut, likelihood).metrics
    assert math.isclose(first["loss"], second["loss"], rel_tol=1e-4), "packs change no loss"
    assert math.isclose(first["grad_norm"], second["grad_norm"], rel_tol=1e-3), "packs change no gradient"
    for name, tensor in one.weights().items():
        gap = float((tensor - two.weights()[name]).abs().max())
        assert gap <= tolerance, f"packs change the update of {name} by {gap}"


def _check_resume(make: Callable[[], Trainer], trainer: Trainer, batch: Batch, folder: Path, objective: Objective) -> None:
    trainer.save(folder)
    resumed = make()
    resumed.load(folder)
    assert resumed.version == trainer.version, "a checkpoint knows its version"
    trainer.update(batch, objective)
    resumed.update(batch, objective)
    for name, tensor in trainer.weights().items():
        assert bool((tensor == resumed.weights()[name]).all()), f"the update after a load differs in {name}"
