"""The forward pass of a micro-batch: hidden states that predict its trained tokens, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchgrad.networks.decoder import Decoder
from patchgrad.networks.prefixes import apart
from patchgrad.networks.rounding import Precision
from patchgrad.values import Floats, MicroBatch, floats

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
        """The hidden states that predict the mask tokens `[N, d]`, and those tokens `[N]`.

        On a CPU the last layer computes no others; on a GPU, whose kernels take whole nodes and whose networks are deep, it computes all.
        """
        at, starts = micro_batch.mask.nonzero()[0], micro_batch.starts.tolist()
        layout = self.network.layout(micro_batch.tokens, starts) if self.share else apart(starts)
        cpu, alike = self.device.type == "cpu", 1
        if precision == "bfloat16" and cpu:
            layout, alike = layout.padded(ALIKE), ALIKE
        said, places = layout.said(at - 1, alike) if cpu else None, layout.place[at - 1]
        rows = places if said is None else np.searchsorted(said, places)
        whole = (micro_batch.tokens[layout.first], micro_batch.positions[layout.first], rows, micro_batch.tokens[at])
        tokens, positions, predicting, targets = (torch.from_numpy(array.astype("int64")).to(self.device) for array in whole)
        hidden = self.network.forward_packed(tokens, positions, layout.nodes, self.gradient_checkpointing, said)
        return hidden[predicting], targets
