"""The trainer that runs in this process: micro-batches spread over threads, gradients summed in a fixed order."""

from __future__ import annotations

import fnmatch
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from patchgrad.contracts import Objective, Trained, Weights
from patchgrad.errors import ConfigError, StoreError
from patchgrad.networks import folder as folders
from patchgrad.networks import lora as adapters
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora, adapt, merged, reduce
from patchgrad.networks.prefixes import apart
from patchgrad.networks.rounding import Precision, worthwhile
from patchgrad.networks.scoring import wide
from patchgrad.trainers.measures import Tally, tally
from patchgrad.trainers.offload import Offloaded
from patchgrad.trainers.optimisers import AdamW, Muon, Optimiser
from patchgrad.trainers.schedules import Schedule, constant
from patchgrad.values import Batch, Floats, MicroBatch, Update, floats

ALIKE = 64  # tokens: oneDNN compiles rounded products for each shape that it meets, and keeps them: of 700 shapes some 800 MB
Gradients = dict[str, Tensor]
Make = Callable[[Mapping[str, Tensor]], Optimiser]


class Held(Protocol):
    """Some of the parameters, as they have to stay."""

    def still(self, gradients: Mapping[str, Tensor]) -> None:
        """Their gradients become 0, in place."""

    def restore(self) -> None:
        """They have their values again."""


class LocalTrainer:
    """Owns a network and its optimiser.

    `schedule` may be replaced at any time; it is asked with the number of steps made since it was set. Each of `threads` workers takes
    every `threads`-th micro-batch with one torch thread of its own: gradients depend on the number of workers only by rounding, and are
    bitwise the same for the same number. A step with a non-finite gradient is skipped and reported as `skipped`. What is `held` does not
    move, and has no part in the norm that gradients are clipped to. What sequences of a micro-batch have in common is computed once where
    that pays (`networks/prefixes.py`), unless told not to `share`. With `gradient_checkpointing` the backward pass computes what is inside
    a layer again, and only what is between layers is kept (1604.06174). With `lora` only adapters of the network are trained, which is the
    one that `base` names; `weights` has them merged. With `offload` the optimiser is in host memory (`trainers/offload.py`). The network
    is moved to `device`, where all is computed, once it is no larger than it has to be. Matrices that do not move, or that the offloaded
    optimiser has exactly, are kept in the `precision` of products.
    """

    def __init__(
        self,
        network: Decoder,
        *,
        schedule: Schedule | float = 1e-3,
        optimiser: Literal["muon", "adamw"] | Make = "muon",
        clip: float = 1.0,
        precision: Precision = "float32",
        threads: int = 1,
        held: Held | None = None,
        share: bool = True,
        gradient_checkpointing: bool = False,
        lora: Lora | None = None,
        base: str = "",
        offload: bool = False,
        device: torch.device | None = None,
    ) -> None:
        kept = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self.device = device or network.head.device
        self.network = adapt(network, lora, kept) if lora else network
        if not offload:
            network.to(self.device)
        self.parameters = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
        make: Make = {"muon": Muon, "adamw": AdamW}[optimiser] if isinstance(optimiser, str) else optimiser
        self._make, self._trainable = make, dict(self.parameters)
        self.optimiser: Optimiser = Offloaded(self.parameters, make) if offload else make(self.parameters)
        if offload and not lora:  # what the optimiser has copied is exact
            reduce(network, kept)
        network.to(self.device)
        self.clip, self.precision, self.threads, self._held, self._sharing = clip, precision, threads, held, share
        self._gradient_checkpointing, self._lora, self._base = gradient_checkpointing, lora, base
        self._version = self._steps = 0
        self._schedule = constant(schedule) if isinstance(schedule, float) else schedule
        self._workers = ThreadPoolExecutor(threads, "trainer", initializer=torch.set_num_threads, initargs=(1,))

    @property
    def version(self) -> int:
        return self._version

    @property
    def schedule(self) -> Schedule:
        return self._schedule

    @schedule.setter
    def schedule(self, schedule: Schedule) -> None:
        """A new phase of training: the new schedule starts at its step 0."""
        self._schedule, self._steps = schedule, 0

    def reset_optimiser(self) -> None:
        """Start over with an optimiser that has seen nothing: the momentum of one objective points away from the next one's."""
        own = self.optimiser
        self.optimiser = own.forgetting(self.parameters) if isinstance(own, Offloaded) else self._make(self.parameters)

    def freeze(self, patterns: Sequence[str]) -> None:
        """Parameters whose names match stay as they are from now on, and cost no gradient; the optimiser starts over.

        `freeze(("model.embed_tokens.weight", "model.layers.0.*"))`; `ConfigError` for a pattern that no parameter has, or if none is left.
        """
        named = dict(self.network.named_parameters())
        if lost := next((pattern for pattern in patterns if not fnmatch.filter(named, pattern)), None):
            raise ConfigError(f"optimiser.frozen names {lost}, and the policy has no such parameter: its first is {next(iter(named))}")
        frozen = {name for pattern in patterns for name in fnmatch.filter(named, pattern)}
        if len(frozen) == len(named):
            raise ConfigError("optimiser.frozen names all parameters of the policy, and nothing is left to train")
        for name, parameter in self._trainable.items():
            parameter.requires_grad_(name not in frozen)
        self.parameters = {name: parameter for name, parameter in self._trainable.items() if name not in frozen}
        self.reset_optimiser()

    def update(self, batch: Batch, objective: Objective) -> Update:
        """One optimiser step on the batch's weighted mean cost per trained token.

        Metrics: those of the contract, and `grad_norm` before clipping, `rate`, `tokens`, `trained`, `sequences`, `seconds`, `skipped`.
        """
        if not batch.trained:
            raise ConfigError("a batch without a trained token has no gradient: drop it before the update")
        began = time.perf_counter()
        gradients, measured = self.gradients(batch, objective)
        if self._held:
            self._held.still(gradients)
        norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients.values()])))
        rate = self._schedule(self._steps)
        finite = norm < float("inf")
        if finite:
            for gradient in gradients.values():
                gradient.mul_(min(1.0, self.clip / (norm + 1e-6)))
            self.optimiser.step(gradients, rate, self._workers.map)
            if self._held:
                self._held.restore()
        self._steps += 1
        self._version += 1
        counts = {
            "grad_norm": norm,
            "rate": rate,
            "tokens": float(sum(len(micro_batch.tokens) for micro_batch in batch.micro_batches)),
            "trained": float(batch.trained),
            "sequences": float(batch.sequences),
            "seconds": time.perf_counter() - began,
            "skipped": float(not finite),
        }
        return Update(self._version, measured.means(batch.trained) | counts)

    def gradients(self, batch: Batch, objective: Objective) -> tuple[Gradients, Tally]:
        """The gradients of the batch's loss by parameter, not clipped, and what was measured on the way."""
        shares = [batch.micro_batches[worker :: self.threads] for worker in range(self.threads)]
        shares = [share for share in shares if share]
        results = list(self._workers.map(lambda share: self._share(share, batch.trained, objective), shares))
        gradients, measured = results[0]
        for more, others in results[1:]:
            _add(gradients, more)
            measured.add(others)
        return gradients, measured

    def logprobs(self, batch: Batch) -> list[Floats]:
        """For each micro-batch, the log-probability of every mask token under the weights as they are; zero at the other tokens."""
        return list(self._workers.map(self._score, batch.micro_batches))

    def nll_excess(self, batch: Batch) -> tuple[float, float]:
        """How much less likely the mask tokens are than draws from the softmax, and the variance that draws have."""
        told = list(self._workers.map(self._excess, batch.micro_batches))
        return sum(excess for excess, _ in told), sum(variance for _, variance in told)

    @torch.no_grad()
    def _excess(self, micro_batch: MicroBatch) -> tuple[float, float]:
        with self._computing():
            excess, variance = self.network.nll_excess(*self._hidden(micro_batch))
        return float(excess.sum()), float(variance.sum())

    @torch.no_grad()
    def _score(self, micro_batch: MicroBatch) -> Floats:
        values = np.zeros(len(micro_batch.tokens), np.float32)
        values[micro_batch.mask] = self._forward(micro_batch)[0].cpu().numpy()
        return floats(values)

    def _share(self, micro_batches: Sequence[MicroBatch], trained: int, objective: Objective) -> tuple[Gradients, Tally]:
        """Gradients and measures of some micro-batches, on a worker thread."""
        gradients, measured = Gradients(), Tally()
        for micro_batch in micro_batches:
            more, others = self._micro_batch(micro_batch, trained, objective)
            _add(gradients, more)
            measured.add(others)
        return gradients, measured

    def _micro_batch(self, micro_batch: MicroBatch, trained: int, objective: Objective) -> tuple[Gradients, Tally]:
        at = micro_batch.mask.nonzero()[0]
        sampled, old, reference, advantages, weights = (
            torch.from_numpy(array[at]).to(self.device)
            for array in (micro_batch.sampled, micro_batch.old, micro_batch.reference, micro_batch.advantages, micro_batch.weights)
        )
        sequences = torch.from_numpy(np.searchsorted(micro_batch.starts, at, side="right") - 1).to(self.device)
        logprobs, entropy = self._forward(micro_batch)
        costs, metrics = objective(Trained(logprobs, old, reference, advantages, sequences))
        losses = weights * costs
        # Shared parameters, separate gradients: `grad` returns them instead of adding to a place that two threads would write.
        gradients = torch.autograd.grad(losses.sum() / trained, list(self.parameters.values()))
        measured = tally(metrics, losses.detach(), entropy, logprobs, old, sampled)
        return dict(zip(self.parameters, gradients, strict=True)), measured

    def _forward(self, micro_batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at each mask token, `[N]` both."""
        with self._computing():
            return self.network.logprobs(*self._hidden(micro_batch))

    @contextmanager
    def rounding(self, precision: Precision) -> Iterator[None]:
        """Products in this precision meanwhile, if that is no finer; on a CPU that does not multiply `bfloat16` they stay as they are.

        For imitation, which takes no ratio to what the sampler said: there a rounding is noise, and in RL a policy that did not act.
        """
        own = self.precision
        self.precision = worthwhile(precision, own, self.device.type != "cpu")
        try:
            yield
        finally:
            self.precision = own

    def _computing(self) -> torch.autocast:
        """Products in the trainer's precision."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16")

    def _hidden(self, micro_batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """The hidden states that predict the mask tokens `[N, d]`, and those tokens `[N]`; what sequences share is computed once.

        On a CPU the last layer computes no others; on a GPU, whose kernels take whole nodes and whose networks are deep, it computes all.
        """
        at, starts = micro_batch.mask.nonzero()[0], micro_batch.starts.tolist()
        layout = self.network.layout(micro_batch.tokens, starts) if self._sharing else apart(starts)
        cpu, alike = self.device.type == "cpu", 1
        if self.precision == "bfloat16" and cpu:
            layout, alike = layout.padded(ALIKE), ALIKE
        said, places = layout.said(at - 1, alike) if cpu else None, layout.place[at - 1]
        rows = places if said is None else np.searchsorted(said, places)
        whole = (micro_batch.tokens[layout.first], micro_batch.positions[layout.first], rows, micro_batch.tokens[at])
        tokens, positions, predicting, targets = (torch.from_numpy(array.astype("int64")).to(self.device) for array in whole)
        hidden = self.network.forward_packed(tokens, positions, layout.nodes, self._gradient_checkpointing, said)
        return hidden[predicting], targets

    def weights(self) -> Weights:
        """The parameters by their transformers names, adapters merged; views where nothing is, so copy what must outlive an update."""
        return merged(self.network)

    def save(self, folder: Path) -> None:
        """Writes a model folder, `optimiser.safetensors` and `trainer.json`; adapters lie in `adapter` too, as peft writes them."""
        folders.save(folder, self.network.config, self.weights())
        if self._lora:
            adapters.save(folder / "adapter", self.network, self._lora, self._base)
        save_file({name: tensor.contiguous() for name, tensor in self.optimiser.state().items()}, folder / "optimiser.safetensors")
        (folder / "trainer.json").write_text(json.dumps({"version": self._version, "steps": self._steps}) + "\n")

    def load(self, folder: Path) -> None:
        """Takes weights, optimiser and counters from a folder that `save` wrote; the next update is bitwise the same.

        With adapters only those are taken: the network below them is that of the base, as it was.
        """
        version, steps = _counters(folder)
        try:
            state = load_file(folder / "optimiser.safetensors")
        except (OSError, SafetensorError) as error:
            raise StoreError(f"{folder} is no checkpoint of a trainer: it lacks a whole optimiser.safetensors") from error
        if folders.shape(folder) != self.network.config:
            raise StoreError(f"{folder} holds a network of another shape than this trainer's")
        if self._lora:
            adapters.load(folder / "adapter", self.network)
        else:
            self.network.load_state_dict(folders.load(folder).state_dict())
        try:
            self.optimiser.restore(state)
        except KeyError as error:
            raise StoreError(f"{folder} was saved with another optimiser: it has no {error}") from error
        self._version, self._steps = version, steps


def version_of(folder: Path) -> int:
    """How many updates the weights in a checkpoint's folder have seen; 0 in one that no trainer wrote, `StoreError` for a damaged one."""
    return _counters(folder)[0] if (folder / "trainer.json").exists() else 0


def _counters(folder: Path) -> tuple[int, int]:
    """The updates that a checkpoint's weights have seen, and the steps of its schedule."""
    try:
        counters = json.loads((folder / "trainer.json").read_text())
        return int(counters["version"]), int(counters["steps"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder} is no checkpoint of a trainer: it lacks a whole trainer.json") from error


def _add(gradients: Gradients, more: Gradients) -> None:
    """Sums are `float32` at least: of 64 micro-batches' gradients one in `bfloat16` would be a hundredth off."""
    for name, gradient in more.items():
        if name in gradients:
            gradients[name] = wide(gradients[name]).add_(gradient)
        else:
            gradients[name] = gradient
