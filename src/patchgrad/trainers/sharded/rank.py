"""One rank of a sharded trainer: its rows of the network and of the optimiser, and what it does in step with all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from patchgrad.contracts import Objective, Trained
from patchgrad.networks import lora as adapters
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora, rest
from patchgrad.networks.rounding import Precision, decide, worthwhile
from patchgrad.networks.slices import Slices
from patchgrad.trainers.allocator import give_back, sparing
from patchgrad.trainers.measures import Tally, readings, tally
from patchgrad.trainers.optimisers import Muon, Optimiser
from patchgrad.trainers.sharded.exchange import Team
from patchgrad.trainers.sharded.forward import TeamForward
from patchgrad.trainers.sharded.network import Measure, fill, local, own_rows, parts, sharded, spread, whole
from patchgrad.trainers.sharded.together import together
from patchgrad.trainers.sharded.world import Place
from patchgrad.values import Floats, MicroBatch, Readings, StepSettings

Make = Callable[[Mapping[str, Tensor]], Optimiser]


@dataclass(frozen=True, slots=True)
class Spec:
    """What every rank is told of the trainer, once.

    `held` has True where a parameter must not move. With `exact` gradients and their norm have the bits that as many threads of
    `LocalTrainer` give them, which takes memory for whole gradients; without, both are summed as they come. With `double` numbers have 64
    bits: so what is computed otherwise is told from what is rounded otherwise. One that does not `learn` only scores, and has no
    states. With `gives_back` ranks give freed memory back at once (`trainers/allocator.py`). Where it is said whether products are faster
    in `bfloat16`, which `rounds` them, no rank looks for itself.
    """

    config: DecoderConfig
    make: Make
    clip: float = 1.0
    precision: Precision = "float32"
    lora: Lora | None = None
    frozen: tuple[str, ...] = ()
    share: bool = True
    gradient_checkpointing: bool = False
    held: Mapping[str, Tensor] = field(default_factory=dict)
    exact: bool = True
    double: bool = False
    learns: bool = True
    gives_back: bool = False
    rounds: bool | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What a rank has of one step: a micro-batch and the size of the team that computes it; without one it keeps step."""

    micro_batch: MicroBatch | None
    size: int = 1


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a rank tells of an update; of a team's micro-batches its first rank tells alone. `readings` has a place for each step."""

    measured: Tally
    readings: list[Readings | None]
    grad_norm: float


class Rank:
    """Computes what it is given when all ranks are; every method is a collective."""

    def __init__(self, place: Place, spec: Spec) -> None:
        kept = torch.bfloat16 if spec.precision == "bfloat16" else torch.float32
        self.place, self.spec = place, spec
        if spec.gives_back:
            give_back()
        if spec.rounds is not None:
            decide(spec.rounds)
        self.network = sharded(spec.config, place.mesh, lora=spec.lora, kept=kept, frozen=spec.frozen, exact=spec.exact)
        if spec.double:
            self.network.double()
        if not spec.learns:
            self.network.requires_grad_(False)
        self.parameters = dict(self.network.named_parameters())  # while they are rows: between two passes a module may have whole ones
        self._parameters = {name: p for name, p in self.parameters.items() if p.requires_grad}
        self.forward = TeamForward(self.network, place.device, spec.share, spec.gradient_checkpointing)
        self._spread = together(place.group, place.device)

    def fill(self, folder: Path) -> None:
        """The network's values, adapters as they begin, and an optimiser that has seen nothing.

        Each rank reads its rows of the folder's weights, or the first reads them all where others do not see the folder.
        """
        begun = dict(adapters.beginnings(self.network))
        if self.place.sees(folder):
            with Slices(folder) as weights:
                fill(self.parameters, partial(_first, begun, weights), self.place.group)
        elif dist.get_rank(self.place.group):
            spread(self.parameters, None, self.place.group)
        else:
            with Slices(folder) as weights:
                spread(self.parameters, partial(_first, begun, weights), self.place.group)
        rest(self.network)
        self.reset_optimiser()
        still = {name: mask for name, mask in self.spec.held.items() if name in self._parameters}
        self._still = {name: mask[slice(*own_rows(len(mask), self.place.group))] for name, mask in still.items()}
        self._values = {name: local(self._parameters[name])[mask].clone() for name, mask in self._still.items()}

    def reset_optimiser(self) -> None:
        """An optimiser that has seen nothing."""
        owned = {name: local(parameter) for name, parameter in self._parameters.items()}
        made: Optimiser = self.spec.make(owned)
        if isinstance(made, Muon):
            made.sized({name: parameter.shape for name, parameter in self._parameters.items()})
        self.optimiser = made

    @sparing()
    def update(self, steps: Sequence[Part], trained: int, objective: Objective, settings: StepSettings) -> Stepped:
        """One optimiser step on the mean cost per trained token of the micro-batches that all ranks compute in these steps."""
        precision, gpu = settings.precision, self.place.device.type != "cpu"
        rounded = worthwhile(precision, self.spec.precision, gpu) if precision else self.spec.precision
        measured, read = self._backward(steps, trained, objective, rounded)
        shards = {name: parameter.grad for name, parameter in self._parameters.items() if parameter.grad is not None}
        gradients = {name: local(gradient) for name, gradient in shards.items()}
        for name, mask in self._still.items():
            gradients[name][mask] = 0.0
        norm = self._norm(shards)
        if norm < float("inf"):
            for gradient in gradients.values():
                gradient.mul_(min(1.0, self.spec.clip / (norm + 1e-6)))
            self.optimiser.step(gradients, settings.lr, self._spread)
            with torch.no_grad():
                for name, mask in self._still.items():
                    local(self._parameters[name])[mask] = self._values[name]
        for parameter in self._parameters.values():
            parameter.grad = None
        return Stepped(measured, read, norm)

    @sparing()
    def score(self, steps: Sequence[Part]) -> list[Floats | None]:
        """Log-probabilities of each micro-batch's mask tokens, from the first rank of its team."""
        return [self._said(part, logprobs) for part, (logprobs, _) in self._measured(steps, Decoder.logprobs)]

    @sparing()
    def nll_excess(self, steps: Sequence[Part]) -> tuple[float, float]:
        """Sums over the micro-batches of which this rank is the first in its team."""
        own = [values for part, values in self._measured(steps, Decoder.nll_excess) if part.micro_batch and not self._team(part).rank]
        return sum(float(excess.sum()) for excess, _ in own), sum(float(variance.sum()) for _, variance in own)

    @torch.no_grad()
    def _measured(self, steps: Sequence[Part], measure: Measure) -> list[tuple[Part, tuple[Tensor, Tensor]]]:
        """Passes without a backward one, which would give whole parameters up: the next pass would find them, and no newer weights."""
        found = [(part, self.forward(measure, part.micro_batch, self._team(part), self.spec.precision)) for part in steps]
        for module in parts(self.network):
            module.reshard()
        return found

    def _backward(
        self, steps: Sequence[Part], trained: int, objective: Objective, precision: Precision
    ) -> tuple[Tally, list[Readings | None]]:
        measured, read = Tally(), list[Readings | None]()
        for number, part in enumerate(steps):
            for module in parts(self.network):
                module.set_requires_gradient_sync(not self.spec.exact or number == len(steps) - 1, recurse=False)
            team, one = self._team(part), part.micro_batch
            logprobs, entropy = self.forward(Decoder.logprobs, one, team, precision)
            if one is None:
                torch.autograd.backward(logprobs.sum() * 0.0)
                read.append(None)
                continue
            at = one.mask.nonzero()[0]
            arrays = (one.sampled, one.old, one.reference, one.advantages, one.weights)
            sampled, old, reference, advantages, weights = (torch.from_numpy(array[at]).to(self.place.device) for array in arrays)
            sequences = torch.from_numpy(np.searchsorted(one.starts, at, side="right") - 1).to(self.place.device)
            costs, metrics = objective(Trained(logprobs, old, reference, advantages, sequences))
            losses = weights * costs
            torch.autograd.backward(losses.sum() / trained)
            if not team.rank:
                measured.add(tally(metrics, losses.detach(), entropy, logprobs, old, sampled))
            read.append(None if team.rank else readings(logprobs, entropy))
        return measured, read

    def _norm(self, gradients: Mapping[str, Tensor]) -> float:
        """Of the gradient of all ranks' parameters; where it is exact, as one process computes it."""
        if self.spec.exact:
            every = [torch.linalg.vector_norm(whole(gradient)) for gradient in gradients.values()]
            return float(torch.linalg.vector_norm(torch.stack(every)))
        square = torch.stack([local(gradient).double().square().sum() for gradient in gradients.values()]).sum()
        dist.all_reduce(square, group=self.place.group)
        return float(square.sqrt())

    def _said(self, part: Part, values: Tensor) -> Floats | None:
        if part.micro_batch is None or self._team(part).rank:
            return None
        found = np.zeros(len(part.micro_batch.tokens), np.float32)
        found[part.micro_batch.mask] = values.cpu().numpy()
        return found

    def _team(self, part: Part) -> Team:
        return self.place.teams[part.size]


def _first(begun: Mapping[str, Tensor], weights: Slices, name: str, first: int, last: int) -> Tensor:
    """Rows of a parameter as training begins: of an adapter, or of the model."""
    if name in begun:
        return begun[name][first:last]
    return torch.zeros(last - first, 1) if name.endswith(".lora_B") else weights.rows(name, first, last)
