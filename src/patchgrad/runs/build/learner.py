"""Who learns: trainer, policy, and the way of the weights between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import torch

from patchgrad.contracts import Curriculum, Score, TrainablePolicy, Trainer
from patchgrad.errors import ConfigError
from patchgrad.learning.loop import Learner
from patchgrad.learning.stopping import in_thread
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora, merged, reduce
from patchgrad.networks.rounding import settled
from patchgrad.policies.channel import DirectChannel
from patchgrad.policies.embedded import EmbeddedPolicy
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.policies.vllm import VllmPolicy
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.build.replicas import installed, replicated
from patchgrad.runs.build.sharded import sharded
from patchgrad.runs.components.construct import conforming, construct
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.demonstrations.induction import planted
from patchgrad.runs.planning.device import device
from patchgrad.runs.planning.estimate import caches
from patchgrad.runs.planning.shapes import an_optimiser
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.sharded.trainer import ShardedTrainer


def learner(trainer: Trainer, policy: TrainablePolicy, curriculum: Curriculum) -> Learner:
    """Who learns, within this process."""
    return Learner(policy, trainer, DirectChannel((policy,)), curriculum)


def trainer(network: Decoder, recipe: Recipe, registry: Registry = BY_NAME, frozen: tuple[str, ...] = (), version: int = 0) -> Trainer:
    """The recipe's trainer; one of the user's is made with `network`, `recipe`, `frozen` and `version`, as far as it asks for them."""
    if recipe.ranks:
        facts = {"network": network, "recipe": recipe, "frozen": frozen, "version": version}
        made: Trainer = construct("trainer", sharded, recipe.trainer.options, facts)
        return made
    if recipe.trainer.name != "local":
        facts = {"network": network, "recipe": recipe, "frozen": frozen, "version": version}
        own: Trainer = conforming("trainer", registry.make("trainers", recipe.trainer, "trainer", facts), Trainer)
        return own
    if recipe.trainer.options:
        raise ConfigError("trainer: local takes no options of its own; they are the recipe's, under optimiser.")
    return local_trainer(network, recipe, frozen, version)


def local_trainer(network: Decoder, recipe: Recipe, frozen: tuple[str, ...] = (), version: int = 0) -> LocalTrainer:
    """The recipe's optimiser over a network, or over adapters of it, where the recipe computes; planted heads are held."""
    choice, there = recipe.optimiser, device(recipe.machine.gpus)
    return LocalTrainer(
        network,
        optimiser=an_optimiser(choice),
        clip=choice.clip,
        precision=settled(choice.precision, recipe.machine.gpus > 0),
        gradient_checkpointing=choice.gradient_checkpointing,
        lora=Lora(choice.rank, choice.alpha) if choice.rank else None,
        base=recipe.policy.model,
        threads=recipe.beside,
        held=planted(network.to(there)) if planted(network) else None,
        frozen=frozen,
        version=version,
        offload=choice.offload,
        device=there,
    )


@asynccontextmanager
async def reference(source: Path, recipe: Recipe, trainer: Trainer) -> AsyncIterator[Score]:
    """What a checkpoint says that never learns, computed as the trainer's network is. It is opened beside the event loop."""
    if not isinstance(trainer, ShardedTrainer):
        yield (await in_thread(_scorer, source, recipe)).score
        return
    beside = await in_thread(lambda: trainer.beside(folder.load(source)))
    yield beside.score
    await in_thread(beside.close)  # not where the ranks are gone


def _scorer(source: Path, recipe: Recipe) -> LocalTrainer:
    """Nothing of it wants a gradient, nor a place in an optimiser."""
    network = folder.load(source)
    choice, precision = recipe.optimiser, settled(recipe.optimiser.precision, recipe.machine.gpus > 0)
    network.requires_grad_(False).to(device(recipe.machine.gpus))
    if precision == "bfloat16" and (choice.rank or choice.offload):
        reduce(network, torch.bfloat16)
    return LocalTrainer(network, precision=precision, threads=recipe.beside)


def policy(network: Decoder, tokenizer: ChatTokenizer, recipe: Recipe, registry: Registry = BY_NAME, cluster: str = "") -> TrainablePolicy:
    """A policy with room for every live attempt and for as many whose cache may still be of use; its replicas are on a `cluster`.

    One of the user's is made with `network`, `tokenizer`, `context`, `sessions` and `recipe`, as far as it asks for them.
    """
    choice, named, precision = recipe.policy, recipe.policy.implementation, settled(recipe.sampled_in, recipe.machine.gpus > 0)
    if named is not None and named.name not in ("embedded", "vllm"):
        facts = {
            "network": network,
            "tokenizer": tokenizer,
            "context": choice.context,
            "sessions": 2 * recipe.sandbox.concurrency,
            "recipe": recipe,
        }
        made = registry.make("policies", named, "policy.implementation", facts)
        own: TrainablePolicy = conforming("policy.implementation", made, TrainablePolicy)
        return own
    if named is not None and named.name == "vllm" and not choice.vllm:
        raise ConfigError("policy.implementation is vllm: name the Python of an environment that has it in policy.vllm.")
    if choice.replicas:
        return replicated(network, tokenizer, recipe, cluster)
    if choice.by_vllm:
        return VllmPolicy(
            network.config,
            merged(network),
            tokenizer,
            context=choice.context,
            sessions=recipe.sandbox.concurrency,
            vllm=installed(recipe),
            within=choice.update == "token",
        )
    return EmbeddedPolicy(
        network,
        tokenizer,
        sessions=2 * recipe.sandbox.concurrency,
        context=choice.context,
        threads=choice.threads,
        room=caches(recipe) if recipe.machine.gpus else 0,
        precision=precision,
        within=choice.update == "token",
    )


def open_model(source: str | Path, recipe: Recipe, registry: Registry = BY_NAME, cluster: str = "") -> tuple[Trainer, TrainablePolicy]:
    """Trainer and policy of a checkpoint folder or a hub id: one network's shape, rotary positions included. What is frozen is."""
    path = folder.locate(source)
    network, tokenizer = folder.load(path, recipe.policy.context, recipe.policy.yarn), ChatTokenizer.load(path)
    return trainer(network, recipe, registry, recipe.optimiser.frozen), policy(network, tokenizer, recipe, registry, cluster)
