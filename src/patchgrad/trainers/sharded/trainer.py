"""The trainer whose network lies in shards on several processes: `Trainer` for the loop, and calls for the ranks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from patchgrad.contracts import Objective, Weights
from patchgrad.errors import ConfigError
from patchgrad.links.kept import KeptFolder
from patchgrad.networks import folder as folders
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import fingerprint
from patchgrad.trainers.allocator import sparing
from patchgrad.trainers.local import Held
from patchgrad.trainers.measures import Tally, counts
from patchgrad.trainers.sharded.asking import Asking
from patchgrad.trainers.sharded.launching import Launched
from patchgrad.trainers.sharded.rank import Spec, Stepped
from patchgrad.values import Batch, Floats, StepSettings, Update


class ShardedTrainer:
    """A network in rows on several ranks (FSDP2), which share a long sequence among as many of them as it takes (Ulysses).

    With one rank a sequence and `exact` sums it is `LocalTrainer` with as many threads, bit for bit. A micro-batch of more than `tokens` is
    computed by the fewest ranks that have no more than that each, as far as teams were launched and heads can be shared evenly.
    `TrainerFault` tells which rank is gone, frozen, or disagrees; after it the trainer is of no use, and a run goes on from its last
    checkpoint by `--resume`.
    """

    def __init__(self, network: Decoder, launched: Launched, spec: Spec, *, tokens: int = 0, version: int = 0, base: str = "") -> None:
        self._version, self._spec = version, spec
        self._base, self._known_by = base, fingerprint(dict(network.named_parameters())) if spec.lora and base else ""
        allowed = [size for size in launched.sizes if spec.config.heads % size == 0]
        self._ranks = Asking(launched, next(launched.networks), allowed, tokens)
        with closing(_shared(spec.config)) as kept:
            folders.save(kept.path, spec.config, dict(network.named_parameters()))
            self._ranks.call("open", spec, kept.path, version)

    @property
    def version(self) -> int:
        return self._version

    @sparing()
    def update(self, batch: Batch, objective: Objective, settings: StepSettings) -> Update:
        """One optimiser step on the batch's weighted mean cost per trained token; metrics are those of `LocalTrainer.update`."""
        if not batch.trained:
            raise ConfigError("a batch without a trained token has no gradient: drop it before the update")
        began = time.perf_counter()
        told: list[Stepped] = self._ranks.steps("update", batch, batch.trained, objective, settings)
        self._version += 1
        measured = Tally()
        for one in told:
            measured.add(one.measured)
        norm = told[0].grad_norm
        read = self._by_micro_batch(batch, [one.readings for one in told])
        return Update(self._version, measured.means(batch.trained) | counts(batch, norm, settings.lr, began), tuple(read))

    def reset_optimiser(self) -> None:
        """Start over with an optimiser that has seen nothing."""
        self._ranks.call("reset_optimiser")

    @sparing()
    def score(self, batch: Batch) -> list[Floats]:
        """For each micro-batch, the log-probability of every mask token under the weights as they are; zero at the other tokens."""
        return self._by_micro_batch(batch, self._ranks.steps("score", batch))

    def _by_micro_batch(self, batch: Batch, told: Sequence[Sequence[Any]]) -> list[Any]:
        """What the first rank of each micro-batch's team told of it, of what all ranks told of each step."""
        found: dict[int, Any] = {}
        for step, works in enumerate(self._ranks.schedule(batch)):
            for rank, work in enumerate(works):
                if work.micro_batch is not None and rank == work.first:
                    found[work.micro_batch] = told[rank][step]
        return [found[number] for number in range(len(batch.micro_batches))]

    @sparing()
    def nll_excess(self, batch: Batch) -> tuple[float, float]:
        """How much less likely the mask tokens are than draws from the softmax, and the variance that draws have."""
        told = self._ranks.steps("nll_excess", batch)
        return sum(excess for excess, _ in told), sum(variance for _, variance in told)

    def weights(self) -> Weights:
        """The parameters by their transformers names, adapters merged; they outlive later updates."""
        with closing(_shared(self._spec.config)) as kept:
            self._ranks.call("publish", kept.path)
            return folders.tensors(kept.path)

    def save(self, folder: Path) -> None:
        """Writes a checkpoint: a model folder, and the optimiser's state in the ranks' rows."""
        self._ranks.call("save", folder.absolute(), self._base, self._known_by)

    def load(self, folder: Path) -> None:
        """Takes weights, optimiser and version from a folder that a trainer of any number of ranks saved."""
        self._version = self._ranks.call("load", folder.absolute())[0]

    def beside(self, network: Decoder) -> ShardedTrainer:
        """A network of the same shape in rows on the same ranks, which scores and never learns, until it is closed."""
        return ShardedTrainer(network, self._ranks.launched, replace(self._spec, learns=False), tokens=self._ranks.tokens)

    def close(self) -> None:
        """The ranks give up its rows; they stay for other trainers."""
        self._ranks.call("close")


def held_still(held: Held, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Where parameters are held, by the names of those that are in some place: True there."""
    ones = {name: torch.ones_like(parameter, requires_grad=False) for name, parameter in parameters.items()}
    held.still(ones)
    return {name: one == 0 for name, one in ones.items() if not one.all()}


def _shared(config: DecoderConfig) -> KeptFolder:
    """Where the weights lie on their way between processes of one machine."""
    return KeptFolder("patchgrad-", 4 * config.parameters, times=1.2)  # one copy at a time
