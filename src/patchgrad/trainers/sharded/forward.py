"""The forward pass of a micro-batch by a team: each rank has some rows of it, and all know what is said of every trained token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from patchgrad.networks.decoder import Decoder
from patchgrad.networks.packed import within
from patchgrad.networks.rounding import Precision
from patchgrad.trainers.forward import Computed
from patchgrad.trainers.sharded.exchange import Team, told
from patchgrad.trainers.sharded.network import Measure, ShardedDecoder
from patchgrad.trainers.sharded.shares import Shares
from patchgrad.trainers.sharded.ulysses import ulysses
from patchgrad.values import MicroBatch, floats, ids

NONE = np.zeros(2, np.float32)
KEPT = MicroBatch(ids([0, 0]), ids([0, 1]), ids([0, 2]), np.array([False, True]), *(floats(NONE) for _ in range(5)))
"""What a rank computes that has no micro-batch, so that it takes part in every collective."""


@dataclass(frozen=True, slots=True)
class TeamForward:
    """A sharded network on this rank's device."""

    network: Decoder
    device: torch.device
    share: bool
    gradient_checkpointing: bool

    def __call__(self, measure: Measure, micro_batch: MicroBatch | None, team: Team, precision: Precision) -> tuple[Tensor, Tensor]:
        """What `measure` says of each mask token, `[N]` both, on every rank of the team.

        A rank without a micro-batch only takes part, and what it is given is of no use.
        """
        one = micro_batch or KEPT
        rows = Computed.of(self.network, one, precision, self.device, share=self.share)
        shares = Shares.even(team.size, len(rows.layout.first), rows.said, rows.places)
        attend = within(rows.layout.nodes, rows.said, self.network.config.windows)
        if team.size > 1:
            attend = ulysses(attend, shares, self.network.config.layers - 1, team)
        mine, said = shares.rows(team.rank), shares.said_of(team.rank)
        first, second = (self._there(array[mine]) for array in rows.inputs(one))
        at = self._there(shares.predicting(team.rank))
        targets = self._there(one.tokens[rows.trained[shares.predicted(team.rank)]])
        network, some = cast(ShardedDecoder, self.network), None if said is None else self._there(said)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            values = network.predict(measure, (first, second), attend, self.gradient_checkpointing, some, at, targets)
        if team.size == 1:
            return values
        counts, order = [len(shares.predicted(rank)) for rank in range(team.size)], self._there(shares.order)
        one_of, other = (told(value, counts, team)[order] for value in values)
        return one_of, other

    def _there(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(array.astype("int64")).to(self.device)
