"""The ranks of a trainer as process groups: all of them, and teams of each size, which are ranks that follow one another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from patchgrad.trainers.sharded.exchange import Team

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where so many ranks meet, on what kind of device, the sizes that a team may have, and the seconds after which a collective fails."""

    host: str
    port: int
    ranks: int
    device: str
    sizes: tuple[int, ...]
    deadline: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank computes: the mesh of all ranks, and its teams by their size."""

    mesh: DeviceMesh
    teams: Mapping[int, Team]

    @property
    def group(self) -> dist.ProcessGroup:
        """All ranks."""
        return self.mesh.get_group()

    @property
    def device(self) -> torch.device:
        return torch.device(self.mesh.device_type)

    def sees(self, folder: Path) -> bool:
        """Does every rank see this folder? One on another machine does not see what lies in the memory of this one."""
        there = torch.tensor(float(folder.is_dir()), device=self.device)
        dist.all_reduce(there, dist.ReduceOp.MIN, group=self.group)
        return bool(there)


def join(rank: int, meeting: Meeting) -> Place:
    """Meets all other ranks.

    Teams of two among four ranks are ranks 0 and 1, and ranks 2 and 3, so that a team lies within a node where nodes come one after the
    other.
    """
    patience, device = timedelta(seconds=meeting.deadline), meeting.device
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    if meeting.host == "127.0.0.1":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = TCPStore(meeting.host, meeting.port, is_master=False, timeout=patience)
    dist.init_process_group(BACKENDS[device], store=store, rank=rank, world_size=meeting.ranks, timeout=patience)
    mesh = init_device_mesh(device, (meeting.ranks,), mesh_dim_names=("ranks",))
    teams = {1: Team()}
    for size in meeting.sizes:
        for first in range(0, meeting.ranks if size > 1 else 0, size):
            group = dist.new_group(list(range(first, first + size)), timeout=patience)
            if first <= rank < first + size:
                teams[size] = Team(rank - first, size, group)
    return Place(mesh, teams)
