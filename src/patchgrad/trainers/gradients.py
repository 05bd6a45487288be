"""The gradient of a batch's loss: micro-batches spread over threads, summed in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchgrad.contracts import Objective, Trained
from patchgrad.networks.rounding import Precision
from patchgrad.networks.scoring import wide
from patchgrad.trainers.forward import Forward
from patchgrad.trainers.measures import Tally, readings, tally
from patchgrad.values import Batch, MicroBatch, Readings

Gradients = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class _Share:
    """What one worker computes of a batch."""

    micro_batches: Sequence[MicroBatch]
    trained: int
    objective: Objective
    precision: Precision


class Workers:
    """Threads that compute, each with one torch thread of its own."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool = ThreadPoolExecutor(count, "trainer", initializer=torch.set_num_threads, initargs=(1,))

    def gradients(
        self, forward: Forward, parameters: Mapping[str, Tensor], batch: Batch, objective: Objective, precision: Precision
    ) -> tuple[Gradients, Tally, tuple[Readings, ...]]:
        """The gradients of the batch's loss by parameter, what was measured on the way, and what was read in each micro-batch.

        Worker `n` takes every `count`-th micro-batch from the `n`-th on.
        """
        shares = [batch.micro_batches[worker :: self.count] for worker in range(self.count)]
        work = [_Share(share, batch.trained, objective, precision) for share in shares if share]
        results = list(self.pool.map(lambda share: _computed(forward, parameters, share), work))
        gradients, measured, _ = results[0]
        for more, others, _ in results[1:]:
            _add(gradients, more)
            measured.add(others)
        own = [read for _, _, read in results]
        return gradients, measured, tuple(own[number % self.count][number // self.count] for number in range(len(batch.micro_batches)))


def _computed(forward: Forward, parameters: Mapping[str, Tensor], share: _Share) -> tuple[Gradients, Tally, list[Readings]]:
    """Gradients, measures and readings of some micro-batches, on a worker thread."""
    gradients, measured, read = Gradients(), Tally(), list[Readings]()
    for micro_batch in share.micro_batches:
        more, others, own = _passed(forward, parameters, micro_batch, share)
        _add(gradients, more)
        measured.add(others)
        read.append(own)
    return gradients, measured, read


def _passed(
    forward: Forward, parameters: Mapping[str, Tensor], micro_batch: MicroBatch, share: _Share
) -> tuple[Gradients, Tally, Readings]:
    """One micro-batch forward and backward."""
    at, device = micro_batch.mask.nonzero()[0], forward.device
    arrays = (micro_batch.sampled, micro_batch.old, micro_batch.reference, micro_batch.advantages, micro_batch.weights)
    sampled, old, reference, advantages, weights = (torch.from_numpy(array[at]).to(device) for array in arrays)
    sequences = torch.from_numpy(np.searchsorted(micro_batch.starts, at, side="right") - 1).to(device)
    logprobs, entropy = forward.logprobs(micro_batch, share.precision)
    costs, metrics = share.objective(Trained(logprobs, old, reference, advantages, sequences))
    losses = weights * costs
    # Shared parameters, separate gradients: `grad` returns them instead of adding to a place that two threads would write.
    gradients = torch.autograd.grad(losses.sum() / share.trained, list(parameters.values()))
    measured = tally(metrics, losses.detach(), entropy, logprobs, old, sampled)
    return dict(zip(parameters, gradients, strict=True)), measured, readings(logprobs, entropy)


def _add(gradients: Gradients, more: Gradients) -> None:
    """Sums are `float32` at least: of 64 micro-batches' gradients one in `bfloat16` would be a hundredth off."""
    for name, gradient in more.items():
        if name in gradients:
            gradients[name] = wide(gradients[name]).add_(gradient)
        else:
            gradients[name] = gradient
