"""The trainer that runs in this process, on the threads of one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from patchgrad.contracts import Objective, Weights
from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora, adapt, fingerprint, merged, reduce, rest
from patchgrad.networks.rounding import Precision, worthwhile
from patchgrad.trainers import checkpoint
from patchgrad.trainers.allocator import sparing
from patchgrad.trainers.checkpoint import Adapters
from patchgrad.trainers.forward import Forward
from patchgrad.trainers.frozen import trainable
from patchgrad.trainers.gradients import Gradients, Workers
from patchgrad.trainers.measures import Tally, counts
from patchgrad.trainers.offload import Offloaded
from patchgrad.trainers.optimisers import AdamW, Muon, Optimiser
from patchgrad.values import Batch, Floats, Readings, StepSettings, Update

Make = Callable[[Mapping[str, Tensor]], Optimiser]
MAKES: Mapping[str, Make] = {"muon": Muon, "adamw": AdamW}


class Held(Protocol):
    """Some of the parameters, as they have to stay."""

    def still(self, gradients: Mapping[str, Tensor]) -> None:
        """Their gradients become 0, in place."""

    def restore(self) -> None:
        """They have their values again."""


class LocalTrainer:
    """Owns a network and its optimiser.

    Each of `threads` workers takes every `threads`-th micro-batch with one torch thread of its own: gradients depend on the number of
    workers only by rounding, and are bitwise the same for the same number. A step with a non-finite gradient is skipped and reported as
    `skipped`. What is `held` does not move, and has no part in the norm that gradients are clipped to; parameters whose names match a
    pattern of `frozen` do not move either, and cost no gradient. `version` is how many updates the network has seen.

    What sequences of a micro-batch have in common is computed once where that pays (`networks/prefixes.py`), unless told not to `share`.
    With `gradient_checkpointing` the backward pass computes what is inside a layer again, and only what is between layers is kept
    (1604.06174). With `lora` only adapters of the network are trained, which is the one that `base` names; `weights` has them merged. With
    `offload` the optimiser is in host memory (`trainers/offload.py`). The network is moved to `device`, where all is computed, once it is
    no larger than it has to be. Matrices that do not move, or that the offloaded optimiser has exactly, are kept in the `precision` of
    products.
    """

    def __init__(
        self,
        network: Decoder,
        *,
        optimiser: Literal["muon", "adamw"] | Make = "muon",
        clip: float = 1.0,
        precision: Precision = "float32",
        threads: int = 1,
        held: Held | None = None,
        frozen: Sequence[str] = (),
        version: int = 0,
        share: bool = True,
        gradient_checkpointing: bool = False,
        lora: Lora | None = None,
        base: str = "",
        offload: bool = False,
        device: torch.device | None = None,
    ) -> None:
        kept = torch.bfloat16 if precision == "bfloat16" else torch.float32
        device = device or network.head.device
        known_by = fingerprint(dict(network.named_parameters())) if lora and base else ""
        self._adapted = Adapters(lora, base, known_by) if lora else None
        network = adapt(network, lora, kept) if lora else network
        if not offload:
            network.to(device)
        self.parameters = trainable(network, frozen)
        rest(network)
        make = self._make = MAKES[optimiser] if isinstance(optimiser, str) else optimiser
        self.optimiser: Optimiser = Offloaded(self.parameters, make) if offload else make(self.parameters)
        if offload and not lora:  # what the optimiser has copied is exact
            reduce(network, kept)
        network.to(device)
        self.forward = Forward(network, device, share, gradient_checkpointing)
        self.clip, self.precision, self._held = clip, precision, held
        self._version = version
        self._workers = Workers(threads)

    @property
    def network(self) -> Decoder:
        """The network that is trained, its adapters beside its matrices."""
        return self.forward.network

    @property
    def version(self) -> int:
        return self._version

    def reset_optimiser(self) -> None:
        """Start over with an optimiser that has seen nothing: the momentum of one objective points away from the next one's."""
        own = self.optimiser
        self.optimiser = own.fresh(self.parameters) if isinstance(own, Offloaded) else self._make(self.parameters)

    def hand_over(self) -> Decoder:
        """The network for another trainer, its weights exact: an offloaded optimiser knows bits that a network in `bfloat16` has lost."""
        if isinstance(self.optimiser, Offloaded):
            self.optimiser.hand_over()
        return self.network

    @sparing()
    def update(self, batch: Batch, objective: Objective, settings: StepSettings) -> Update:
        """One optimiser step on the batch's weighted mean cost per trained token.

        Metrics: those of the contract, and `grad_norm` before clipping, `rate`, `tokens`, `trained`, `sequences`, `seconds`, `skipped`.
        """
        if not batch.trained:
            raise ConfigError("a batch without a trained token has no gradient: drop it before the update")
        began = time.perf_counter()
        gradients, measured, read = self.gradients(batch, objective, settings.precision)
        if self._held:
            self._held.still(gradients)
        norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients.values()])))
        finite = norm < float("inf")
        if finite:
            for gradient in gradients.values():
                gradient.mul_(min(1.0, self.clip / (norm + 1e-6)))
            self.optimiser.step(gradients, settings.lr, self._workers.pool.map)
            if self._held:
                self._held.restore()
        self._version += 1
        return Update(self._version, measured.means(batch.trained) | counts(batch, norm, settings.lr, began), read)

    def gradients(
        self, batch: Batch, objective: Objective, precision: Precision | None = None
    ) -> tuple[Gradients, Tally, tuple[Readings, ...]]:
        """The gradients of the batch's loss by parameter, not clipped, what was measured on the way, and what each micro-batch was read as.

        Products are in this precision, if it is no finer than the trainer's; on a CPU that does not multiply `bfloat16` they stay as they
        are. Imitation takes no ratio to what the sampler said: there a rounding is noise, and in RL a policy that did not act.
        """
        rounded = worthwhile(precision, self.precision, self.forward.device.type != "cpu") if precision else self.precision
        return self._workers.gradients(self.forward, self.parameters, batch, objective, rounded)

    @sparing()
    def score(self, batch: Batch) -> list[Floats]:
        """For each micro-batch, the log-probability of every mask token under the weights as they are; zero at the other tokens."""
        return list(self._workers.pool.map(lambda one: self.forward.score(one, self.precision), batch.micro_batches))

    @sparing()
    def nll_excess(self, batch: Batch) -> tuple[float, float]:
        """How much less likely the mask tokens are than draws from the softmax, and the variance that draws have."""
        told = list(self._workers.pool.map(lambda one: self.forward.nll_excess(one, self.precision), batch.micro_batches))
        return sum(excess for excess, _ in told), sum(variance for _, variance in told)

    def weights(self) -> Weights:
        """The parameters by their transformers names, adapters merged; views where nothing is, so copy what must outlive an update."""
        return merged(self.network)

    def save(self, folder: Path) -> None:
        """Writes a checkpoint (`trainers/checkpoint.py`)."""
        checkpoint.save(folder, self.network, self.weights(), self.optimiser, self._version, self._adapted)

    def load(self, folder: Path) -> None:
        """Takes weights, optimiser and version from a folder that `save` wrote; the next update is bitwise the same."""
        self._version = checkpoint.load(folder, self.network, self.optimiser, self._adapted)
        rest(self.network)
