"""Attention of a team: each rank has some rows of a micro-batch, and computes all rows of some heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from patchgrad.networks.packed import Attend
from patchgrad.trainers.sharded.exchange import Team, to_heads, to_rows
from patchgrad.trainers.sharded.shares import Shares


def ulysses(attend: Attend, shares: Shares, last: int, team: Team) -> Attend:
    """`attend` over the whole micro-batch, for a rank that has the rows of its share; layer `last` computes the rows said alone.

    A prefix tree and its windows stay as they are. Where key-value heads are fewer than ranks, ranks have copies of them: their gradients
    add up on the way back.
    """
    every, some = shares.counts, shares.said_counts

    def exchanged(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        asked, width = some if layer == last else every, k.shape[2]
        copies = math.lcm(k.shape[1], team.size) // k.shape[1]
        both = torch.cat([k, v], 2).repeat_interleave(copies, 1)
        all_k, all_v = torch.split(to_heads(both, every, team), width, 2)
        return to_rows(attend(layer, to_heads(q, asked, team), all_k, all_v), asked, team)

    return exchanged
