"""What a recipe will take before it takes it: memory by part, sandboxes, disk.

Memory is that of the phase that takes the most. What the trainer holds is rehearsed (`rehearsal.py`), and what the policy holds
follows from the shape. Beside it run the sandboxes, each with a limit of its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace

from patchgrad.config import require
from patchgrad.networks import products
from patchgrad.networks.attention import TILE
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.paged import PAGE
from patchgrad.networks.rounding import settled
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import Recipe, option_name
from patchgrad.runs.planning.device import spare, supported
from patchgrad.runs.planning.host_memory import empty, free
from patchgrad.runs.planning.packs import footprint, phases, referred
from patchgrad.runs.planning.plan import MARGIN, MemoryPlan, Part
from patchgrad.runs.planning.ranks import of_a_rank
from patchgrad.runs.planning.rehearsal import Footprint
from patchgrad.runs.planning.shapes import shape_of
from patchgrad.values import Limits

VLLM = 0.9  # of a GPU, so much does its server take unless it is told otherwise
JOURNAL = 24  # bytes that a run keeps of each token of an attempt: about 20 in one of `laptop`
TRAINED = 8  # bytes besides, for each pass over an attempt: some 17 of a token that is trained, which less than half of them are


def plan(recipe: Recipe, room: int = 0, beside: int = 0) -> MemoryPlan:
    """The plan of a recipe on a machine, or a GPU and so many bytes `beside` it in the host, with so many bytes free, or on this one."""
    supported(recipe)
    shape, choice, room = shape_of(recipe), recipe.optimiser, room or free_for(recipe)
    gpu = recipe.machine.gpus > 0
    if recipe.ranks:
        return _of_a_rank(recipe, shape, room) if gpu else _of_ranks(recipe, shape, room)
    found = [(phase, footprint(shape, choice, phase.tokens, phase.trained, phase.frozen, gpu)) for phase in phases(recipe)]
    phase, most = max(found, key=lambda one: one[1].peak(recipe.beside))
    lasting = most.weights + most.states
    libraries = [] if recipe.machine.gpus else [Part("interpreter and libraries", empty(choice.gradient_checkpointing))]
    parts = [
        *libraries,
        Part("weights", most.weights),
        Part(f"states of {choice.name}", most.states),
        Part(f"gradients and activations, {recipe.beside} x {phase.tokens:,} tokens", most.peak(recipe.beside) - lasting),
        *([Part("the reference's weights", most.weights)] if referred(recipe) else []),
    ]
    parts += _policy(shape, recipe, room, int(MARGIN * room) - sum(part.bytes for part in parts))
    host = _beside(shape, choice) if recipe.machine.gpus else 0
    folder = disk(recipe, written(shape, choice, most)) + (4 * shape.parameters if choice.rank else 0)  # the last policy is written whole
    return MemoryPlan(
        phase.name, tuple(parts), room, 2 * recipe.sandbox.concurrency, Limits().memory, folder, host, (beside or free()) if host else 0
    )


def _of_a_rank(recipe: Recipe, shape: DecoderConfig, room: int) -> MemoryPlan:
    """The plan of the first GPU of several, each of which has a rank: where no replicas sample elsewhere, it has the policy, too."""
    held, choice = of_a_rank(recipe, shape), recipe.optimiser
    left = int(MARGIN * room) - held.peak
    parts = held.parts if recipe.policy.replicas else (*held.parts, *_policy(shape, recipe, room, left))
    most = footprint(shape, choice, 64, 8, choice.frozen, True)
    folder = disk(recipe, written(shape, choice, most))
    return MemoryPlan(held.phase, parts, room, 2 * recipe.sandbox.concurrency, Limits().memory, folder)


def _of_ranks(recipe: Recipe, shape: DecoderConfig, room: int) -> MemoryPlan:
    """The plan of a machine on whose cores ranks are, and beside them the process that samples: weights travel through memory."""
    held, choice, ranks = of_a_rank(recipe, shape), recipe.optimiser, _here(recipe)
    parts = [
        Part(f"interpreter and libraries of {ranks + 1} processes", (ranks + 1) * empty(choice.gradient_checkpointing)),
        *(Part(f"{part.name}, on each of {ranks} ranks", ranks * part.bytes) for part in held.parts),
        Part("weights on their way from the ranks", 4 * shape.parameters),
    ]
    parts += _policy(shape, recipe, room, int(MARGIN * room) - sum(part.bytes for part in parts))
    most = footprint(shape, choice, 64, 8, choice.frozen, False)
    folder = disk(recipe, written(shape, choice, most)) + (4 * shape.parameters if choice.rank else 0)
    return MemoryPlan(held.phase, tuple(parts), room, 2 * recipe.sandbox.concurrency, Limits().memory, folder)


def _here(recipe: Recipe) -> int:
    """How many of the ranks are on this machine: as torchrun says, or their share of as many machines as the recipe has."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", math.ceil(recipe.ranks / max(1, recipe.machine.nodes))))


def _policy(shape: DecoderConfig, recipe: Recipe, room: int, left: int) -> list[Part]:
    """What samples, its caches last, where so many bytes of the room are left. Without GPUs its replicas are on this machine."""
    choice, many = recipe.policy, 0 if recipe.machine.gpus else recipe.policy.replicas
    between = [Part("weights on their way to replicas, two versions", 8 * shape.parameters)] if many else []
    if choice.by_vllm:
        named = {option_name(option): option.partition("=")[2] for option in choice.options}
        if recipe.machine.gpus:
            return [Part("vLLM's server", int(_share(named) * room))]
        return [*between, Part("vLLM's servers" if many else "vLLM's server", max(1, many) * copied(shape, recipe))]
    weights, whole, sessions = copied(shape, recipe), cached(shape, recipe), 2 * recipe.sandbox.concurrency
    own = Part("the policy's weights, arranged for sampling", weights)
    if recipe.machine.gpus:
        return [own, Part("its caches, of what is left", min(whole, max(left - weights, whole // sessions)))]
    caches = Part(f"its caches, where {sessions} attempts fill their context", whole)
    if many:
        each = weights + empty(recipe.optimiser.gradient_checkpointing)
        return [*between, Part(f"{many} processes that sample, with the policy's weights", many * each), caches]
    return [own, caches]


def _share(options: Mapping[str, str]) -> float:
    """How much of a GPU vLLM's server takes."""
    told = options.get("gpu-memory-utilization", str(VLLM))
    try:
        share = float(told)
    except ValueError:
        share = math.nan
    require(0 < share <= 1, f"policy.options has gpu-memory-utilization={told}; it is a share of a GPU's memory, above 0 and at most 1")
    return share


def written(shape: DecoderConfig, choice: Optimiser, held: Footprint) -> int:
    """Bytes of a checkpoint: weights, or adapters alone, and what the optimiser needs to go on, wherever it has it."""
    if choice.rank:
        return held.gradients + held.states  # gradients are as large as the adapters
    return held.weights + held.states + _beside(shape, choice)


def _beside(shape: DecoderConfig, choice: Optimiser) -> int:
    """Bytes of an offloaded optimiser in host memory: the exact weights, and its states of them."""
    if not choice.offload or choice.rank:
        return 0
    there = footprint(shape, replace(choice, offload=False, precision="float32"), 64, 8, choice.frozen, True)
    return there.gradients + there.states  # copies are as large as gradients


def free_for(recipe: Recipe) -> int:
    """Bytes that are free where a recipe computes."""
    return spare() if recipe.machine.gpus else free()


def caches(recipe: Recipe) -> int:
    """Bytes that the policy's caches may take on a GPU: what the plan leaves, and room for one attempt at least."""
    return plan(recipe).parts[-1].bytes


def copied(shape: DecoderConfig, recipe: Recipe) -> int:
    """Bytes of the policy's weights. On a CPU it has a head beside the embedding also where the two are tied, and a rounded one beside it.

    On a GPU the embedding is as the trainer has it.
    """
    choice, dense, half = recipe.optimiser, shape.layers * shape.dense, _halved(recipe)
    if not recipe.machine.gpus:
        head = shape.vocabulary * shape.hidden
        return (2 if half else 4) * dense + 4 * (shape.parameters - dense + shape.tied * head) + 2 * half * head
    reduced = settled(choice.precision, gpu=True) == "bfloat16" and (choice.offload or choice.rank > 0)
    return (2 if half else 4) * dense + (2 if reduced else 4) * (shape.parameters - dense)


def cached(shape: DecoderConfig, recipe: Recipe) -> int:
    """Bytes of keys and values of all sessions that are kept, each up to its context."""
    page, each = PAGE if recipe.machine.gpus else TILE, 2 if _halved(recipe) else 4
    return remembered(shape, 2 * recipe.sandbox.concurrency, recipe.policy.context, page, each)


def _halved(recipe: Recipe) -> bool:
    """Does the policy multiply in `bfloat16`, and keep keys and values so?"""
    wanted = settled(recipe.sampled_in, recipe.machine.gpus > 0)
    return (wanted if recipe.machine.gpus else products.supported(wanted)) == "bfloat16"


def remembered(shape: DecoderConfig, sessions: int, context: int, page: int, each: int) -> int:
    """Bytes of keys and values of so many full contexts, in pages of so many tokens, at so many bytes a number."""
    return sessions * shape.layers * 2 * shape.kv_heads * shape.head_size * math.ceil(context / page) * page * each


def disk(recipe: Recipe, checkpoint: int) -> int:
    """Bytes of the run's folder at most: the checkpoints that are kept and the last two, and what is kept of every attempt."""
    rft, measured = recipe.rft, recipe.evaluation
    kept = 1 + bool(rft.rounds) + len(recipe.stages)
    held_out = kept * (recipe.tasks.held_out + recipe.tasks.held_out_generated) * measured.attempts * measured.limits.context
    passes = [(rft.rounds * rft.tasks * rft.attempts * rft.limits.context, rft.epochs)]
    for stage in recipe.stages:
        drawn = stage.sampling
        attempts = stage.iterations * drawn.tasks * (drawn.attempts + drawn.forks * drawn.continuations)
        passes.append((attempts * stage.limits.context, stage.loss.epochs))
    of_attempts = sum(tokens * (JOURNAL + TRAINED * epochs) for tokens, epochs in passes)
    return (kept + 2) * checkpoint + held_out * JOURNAL + of_attempts
