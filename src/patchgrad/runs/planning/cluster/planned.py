"""A recipe on many machines: memory of a rank and of a replica, simulated iterations, and the processes of the best split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.recipes.component import Component
from patchgrad.recipes.recipe import Recipe
from patchgrad.recipes.stage import Stage
from patchgrad.runs.planning.cluster.memory import of_a_replica
from patchgrad.runs.planning.cluster.recorded import Recorded
from patchgrad.runs.planning.cluster.roles import Role, Split, job, roles
from patchgrad.runs.planning.cluster.splits import LAGS, Row, best, rows, ways
from patchgrad.runs.planning.cluster.world import Assumed, Machines, Model, World
from patchgrad.runs.planning.plan import MARGIN, size
from patchgrad.runs.planning.ranks import Held, of_a_rank
from patchgrad.runs.planning.shapes import shape_of

SEEDS = (0, 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """Machines that make `cells` attempts each at once; `like` has attempts of a run."""

    machines: Machines
    cells: int
    like: Recorded | None = None


@dataclass(frozen=True, slots=True)
class Simulated:
    """A stage by its number, the ways that were simulated, and the fastest that this version does."""

    stage: int
    rows: tuple[Row, ...]
    best: Row


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What GPUs of the trainer and of replicas hold, of `memory` bytes each; a replica's caches have room for so many `tokens`."""

    rank: Held
    replica: Held
    memory: int
    tokens: int
    stages: tuple[Simulated, ...]
    roles: tuple[Role, ...]
    job: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return self.rank.peak <= MARGIN * self.memory and self.tokens >= self.replica.sequence


def planned(recipe: Recipe, words: Sequence[str], asked: Asked, tell: Callable[[str], None] = lambda _: None) -> ClusterPlan:
    """The plan of a recipe, which is made by these words of a command.

    Raises `ConfigError` for a recipe without RL, and for machines that do not hold the trainer or a replica.
    """
    if not recipe.stages:
        raise ConfigError(f"{recipe.name} has no stage of RL, so there is no iteration to plan.")
    split, machines, lags = recipe.policy.split, asked.machines, _lags(recipe)
    recipe = replace(recipe, machine=replace(recipe.machine, nodes=machines.nodes, gpus=machines.gpus))
    shape = shape_of(recipe)
    replica = _replica(recipe, shape, machines)
    fewest = _fewest(recipe, shape, machines)
    simulated = []
    for number, stage in enumerate(recipe.stages, 1):
        tell(f"Iterations of stage {number} are simulated; it takes a minute or two.")
        found = tuple(rows(ways(_world(recipe, stage, shape, asked, split), fewest, lags), SEEDS))
        simulated.append(Simulated(number, found, best(found)))
    chosen = simulated[-1].best
    trainers = chosen.trainers
    fitted = _over(recipe, trainers * machines.gpus)
    replicas = (machines.nodes - trainers) * machines.gpus // split
    told = (*words, *_changes(recipe, trainers * machines.gpus, replicas, chosen.lag))
    parted = Split(machines, trainers, replicas, split, asked.cells)
    room = split * replica.parts[-1].bytes / Model.of(shape).cache
    every = roles(recipe, shape, told, parted)
    return ClusterPlan(
        of_a_rank(fitted, shape), replica, int(machines.kind.memory), int(room), tuple(simulated), tuple(every), job(told, parted)
    )


def _replica(recipe: Recipe, shape: DecoderConfig, machines: Machines) -> Held:
    """What a GPU of a replica holds. Raises `ConfigError` where machines have too few GPUs, or too small ones."""
    split = recipe.policy.split
    if machines.nodes < 2:
        raise ConfigError("--cluster plans which machines sample and which train: name two or more, or plan one by --machine.gpus.")
    if split > machines.gpus:
        raise ConfigError(f"A replica takes {split} GPUs, and a machine has {machines.gpus}: lower tensor-parallel-size in policy.options.")
    held = of_a_replica(recipe, shape, split, machines.kind.memory)
    if not held.parts[-1].bytes:
        weights, gpu = size(held.parts[0].bytes), size(machines.kind.memory)
        raise ConfigError(
            f"Weights take {weights} of each of a replica's {split} GPUs of {gpu}: raise tensor-parallel-size in policy.options."
        )
    return held


def _over(recipe: Recipe, ranks: int) -> Recipe:
    """The recipe with so many ranks."""
    options = recipe.trainer.options if recipe.trainer.name == "sharded" else {}
    return replace(recipe, trainer=Component("sharded", {**options, "ranks": ranks}))


def _fewest(recipe: Recipe, shape: DecoderConfig, machines: Machines) -> int:
    """How many nodes hold the trainer at least."""
    for nodes in range(1, machines.nodes):
        held = of_a_rank(_over(recipe, nodes * machines.gpus), shape)
        if held.peak <= MARGIN * machines.kind.memory:
            return nodes
    ranks, gpu = (machines.nodes - 1) * machines.gpus, machines.kind.memory / 1e9
    raise ConfigError(
        f"The trainer takes {held.peak / 1e9:.0f} GB of each GPU over {ranks} ranks, as one node samples, and there are {gpu:.0f}: raise "
        "trainer.together, lower optimiser.micro_batch_tokens, or take more machines."
    )


def _world(recipe: Recipe, stage: Stage, shape: DecoderConfig, asked: Asked, split: int) -> World:
    machines, like = asked.machines, asked.like
    world = World(
        machines,
        Model.of(shape),
        like or Assumed(stage.limits.turns, stage.limits.context),
        machines.nodes,
        machines.nodes,
        0,
        stage.sampling.tasks,
        stage.sampling.attempts,
        stage.loss.minibatch,
        min(recipe.sandbox.concurrency, machines.nodes * asked.cells),
        split,
    )
    return replace(world, taught=like.taught) if like else world


def _lags(recipe: Recipe) -> tuple[int, ...]:
    """The lags that all stages may have: none but 0 where one of them trains without a ratio to what was sampled."""
    try:
        for stage in recipe.stages:
            replace(stage, sampling=replace(stage.sampling, lag=1))
    except ConfigError:
        return (0,)
    return LAGS


def _changes(recipe: Recipe, ranks: int, replicas: int, lag: int) -> tuple[str, ...]:
    """What `patchgrad train` is given for it beside what makes the recipe."""
    lags = [word for number in range(len(recipe.stages)) for word in (f"--stages.{number}.sampling.lag", str(lag))] if lag else []
    kind = () if recipe.trainer.name == "sharded" else ("--trainer", "sharded")  # which would forget the options that it has
    sized = ("--machine.nodes", str(recipe.machine.nodes), "--machine.gpus", str(recipe.machine.gpus))
    return (*sized, *kind, "--trainer.ranks", str(ranks), "--policy.replicas", str(replicas), *lags)
