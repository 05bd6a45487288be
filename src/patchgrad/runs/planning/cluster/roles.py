"""Every process of a run on many machines: which machine has how many, what starts it, where it listens, and what it writes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.launch import MEETING, PORT, Job, start
from patchgrad.runs.planning.cluster.world import Machines
from patchgrad.runs.planning.estimate import disk
from patchgrad.runs.planning.plan import size


@dataclass(frozen=True, slots=True)
class Role:
    """So many processes on `each` machine from the first to the last; what starts them; where they listen; files that they write."""

    name: str
    first: int
    last: int
    each: int
    command: str
    listens: str
    writes: str


@dataclass(frozen=True, slots=True)
class Split:
    """The first `trainers` machines train, and `replicas` sample, each on so many GPUs (`split`)."""

    machines: Machines
    trainers: int
    replicas: int
    split: int
    cells: int


def roles(recipe: Recipe, shape: DecoderConfig, words: Sequence[str], split: Split) -> list[Role]:
    """The processes that this code begins for the recipe on these machines."""
    nodes, gpus = split.machines.nodes, split.machines.gpus
    train, every = (0, split.trainers - 1), (0, nodes - 1)
    started = Job(tuple(words), nodes, split.cells, gpus, split.trainers)
    ranks = split.trainers * gpus
    published = 2 * 4 * shape.parameters
    sampling = (split.trainers, nodes - 1)
    each = -(-split.replicas // max(1, nodes - split.trainers))
    folder = disk(recipe, 3 * 4 * shape.parameters)
    command = shlex.join(started.train) + " --cluster HEAD"
    return [
        *_ray(split),
        Role("torchrun", *train, 1, f"torchrun --nnodes {split.trainers} --nproc-per-node {gpus}", f"{MEETING} on machine 0", ""),
        Role("the run", 0, 0, 1, command, "a port for ranks that it chooses", f"the run's folder, at most {size(folder)}"),
        Role("ranks of the trainer", *train, gpus, "by torchrun", "ports of NCCL's", f"rows of checkpoints, a {ranks}th each"),
        Role("replicas of the policy", *sampling, each, "actors of Ray's", "loopback alone", f"two versions in memory, {size(published)}"),
        Role("hosts of attempts", *every, 1, "actors of Ray's", "", "archives of tasks, and states of attempts"),
        Role("sandboxes and graders", *every, split.cells, "by their host", "", "in memory, or below its temporary folder"),
    ]


def _ray(split: Split) -> list[Role]:
    """Ray's processes: the head's, those of other machines that train, and those of machines that sample."""
    parts = {(0, 0): True, (1, split.trainers - 1): True, (split.trainers, split.machines.nodes - 1): False}
    return [
        Role(
            "Ray",
            *part,
            1,
            shlex.join(start(PORT, split.cells, f"HEAD:{PORT}" if part[0] else "", trains=trains)),
            "ports that it chooses" if part[0] else f"{PORT}, and ports that it chooses",
            "logs below /tmp/ray",
        )
        for part, trains in parts.items()
        if part[0] <= part[1]
    ]


def job(words: Sequence[str], split: Split) -> tuple[str, ...]:
    """The command that prints a job for Slurm with all of them."""
    size = {"nodes": split.machines.nodes, "trainers": split.trainers, "gpus": split.machines.gpus, "cells": split.cells}
    options = (word for name, value in size.items() for word in (f"--{name}", str(value)))
    return ("patchgrad", "cluster", "slurm", *options, *words)
