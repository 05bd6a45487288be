"""The forward pass of a micro-batch: hidden states that predict its trained tokens, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchgrad.networks.decoder import Decoder
from patchgrad.networks.packed import Rows
from patchgrad.networks.prefixes import Layout, apart
from patchgrad.networks.rounding import Precision
from patchgrad.values import Floats, Ids, MicroBatch, floats

ALIKE = 64  # tokens: oneDNN compiles rounded products for each shape that it meets, and keeps them: of 700 shapes some 800 MB


@dataclass(frozen=True, slots=True)
class Forward:
    """A network on its device.

    What sequences of a micro-batch have in common is computed once where that pays, unless it is not to `share`.

    With `gradient_checkpointing` the backward pass computes what is inside a layer again (1604.06174).
    """

    network: Decoder
    device: torch.device
    share: bool
    gradient_checkpointing: bool

    def logprobs(self, micro_batch: MicroBatch, precision: Precision) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at each mask token, `[N]` both."""
        with self._computing(precision):
            return self.network.logprobs(*self._hidden(micro_batch, precision))

    @torch.no_grad()
    def score(self, micro_batch: MicroBatch, precision: Precision) -> Floats:
        """The log-probabilities in the shape of the micro-batch's tokens, zero where nothing is trained."""
        values = np.zeros(len(micro_batch.tokens), np.float32)
        values[micro_batch.mask] = self.logprobs(micro_batch, precision)[0].cpu().numpy()
        return floats(values)

    @torch.no_grad()
    def nll_excess(self, micro_batch: MicroBatch, precision: Precision) -> tuple[float, float]:
        """How much less likely the mask tokens are than draws from the softmax, and the variance that draws have."""
        with self._computing(precision):
            excess, variance = self.network.nll_excess(*self._hidden(micro_batch, precision))
        return float(excess.sum()), float(variance.sum())

    def _computing(self, precision: Precision) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bfloat16")

    def _hidden(self, micro_batch: MicroBatch, precision: Precision) -> tuple[Tensor, Tensor]:
        """The hidden states that predict the mask tokens `[N, d]`, and those tokens `[N]`."""
        rows = Computed.of(self.network, micro_batch, precision, self.device, share=self.share)
        predicting = rows.places if rows.said is None else np.searchsorted(rows.said, rows.places)
        whole = (*rows.inputs(micro_batch), predicting, micro_batch.tokens[rows.trained])
        tokens, positions, at, targets = (torch.from_numpy(array.astype("int64")).to(self.device) for array in whole)
        hidden = self.network.forward_packed(tokens, positions, rows.layout.nodes, self.gradient_checkpointing, rows.said)
        return hidden[at], targets


@dataclass(frozen=True, slots=True)
class Computed:
    """What is computed of a micro-batch: rows of tokens laid out as a tree, of which the last layer may compute those `said` alone.

    Mask token n of its N is `trained[n]` in the micro-batch, and is predicted in row `places[n]`.
    """

    layout: Layout
    said: Rows | None
    places: Rows
    trained: Rows

    @classmethod
    def of(cls, network: Decoder, micro_batch: MicroBatch, precision: Precision, device: torch.device, *, share: bool) -> Computed:
        """On a CPU the last layer computes no rows that predict nothing; on a GPU, whose kernels take whole nodes and whose networks are
        deep, it computes all."""
        at, starts = micro_batch.mask.nonzero()[0], micro_batch.starts.tolist()
        layout = network.layout(micro_batch.tokens, starts) if share else apart(starts)
        cpu, alike = device.type == "cpu", 1
        if precision == "bfloat16" and cpu:
            layout, alike = layout.padded(ALIKE), ALIKE
        return cls(layout, layout.said(at - 1, alike) if cpu else None, layout.place[at - 1], at)

    def inputs(self, micro_batch: MicroBatch) -> tuple[Ids, Ids]:
        """The tokens of all rows, and their positions."""
        return micro_batch.tokens[self.layout.first], micro_batch.positions[self.layout.first]
