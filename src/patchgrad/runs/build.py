"""Words become objects: the only place where a part of a recipe is made into what does it."""

from __future__ import annotations

from pathlib import Path

import torch

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import Curriculum, Journal, RewardFunction, Sandboxes, TrainablePolicy, Trainer
from patchgrad.errors import ConfigError
from patchgrad.grading import Grader
from patchgrad.grading.rewards import Resolved
from patchgrad.learning.loop import Learner
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora, merged, reduce
from patchgrad.policies.channel import DirectChannel
from patchgrad.policies.embedded import EmbeddedPolicy
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.policies.vllm import VllmPolicy
from patchgrad.recipes.component import BUILT_IN
from patchgrad.recipes.recipe import AgentChoice, Recipe, SandboxChoice
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.runs.demonstrations.induction import planted
from patchgrad.runs.planning.device import device
from patchgrad.runs.planning.estimate import caches
from patchgrad.runs.planning.shapes import an_optimiser
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.trainers.local import LocalTrainer

# --- attempts ------------------------------------------------------------------------------------


def agent(choice: AgentChoice, *, demonstration: bool = False) -> ReactAgent:
    """The recipe's prompts over the paper's tools."""
    view = View(lines=choice.window, limit=choice.longest, brief=choice.prompts == "brief")
    return ReactAgent(toolset(view), prompts=choice.prompts, demonstration=demonstration)


def sandboxes(choice: SandboxChoice) -> Sandboxes:
    """One cell for each live attempt, half as many for grading; `ConfigError` where the host does not enforce what is required."""
    cells = choice.concurrency + choice.concurrency // 2
    boxes: Sandboxes
    match choice.backend.name:
        case "oci":
            boxes = OciSandboxes(choice.image, cells, choice.socket)
        case "landlock":
            boxes = LandlockSandboxes(cells)
        case "bwrap":
            boxes = BwrapSandboxes(cells, warm=True)
        case name:
            raise ConfigError(f"sandbox.backend is {name}, which nothing here opens; there are {', '.join(BUILT_IN['sandboxes'])}")
    told = boxes.probe()
    if lacking := told.missing(choice.requires):
        raise ConfigError(
            f"the recipe requires {', '.join(lacking)} of its sandboxes, which {told.name} does not enforce on this host; "
            "see patchgrad check, or name what you can do without in sandbox.requires"
        )
    return boxes


def harness(agent_choice: AgentChoice, choice: SandboxChoice, boxes: Sandboxes, journal: Journal) -> Harness:
    """What attempts are made with. Tool calls are remembered where the choice says so."""
    cache = ToolCache(timeouts=boxes.probe().work) if choice.cache else None
    return Harness(agent(agent_choice), boxes, Grader(boxes).grade, LocalExecutor(choice.concurrency), journal, cache=cache)


def reward(recipe: Recipe) -> RewardFunction:
    """What an attempt is worth before its length is priced."""
    return Resolved()


# --- learning ------------------------------------------------------------------------------------


def learner(trainer: Trainer, policy: TrainablePolicy, curriculum: Curriculum) -> Learner:
    """Who learns, within this process."""
    return Learner(policy, trainer, DirectChannel((policy,)), curriculum)


def trainer(network: Decoder, recipe: Recipe, frozen: tuple[str, ...] = (), version: int = 0) -> LocalTrainer:
    """The recipe's optimiser over a network, or over adapters of it, where the recipe computes; planted heads are held."""
    choice, there = recipe.optimiser, device(recipe.machine.gpus)
    return LocalTrainer(
        network,
        optimiser=an_optimiser(choice),
        clip=choice.clip,
        precision=choice.precision,
        gradient_checkpointing=choice.gradient_checkpointing,
        lora=Lora(choice.rank, choice.alpha) if choice.rank else None,
        base=recipe.policy.model,
        threads=recipe.workers,
        held=planted(network.to(there)) if planted(network) else None,
        frozen=frozen,
        version=version,
        offload=choice.offload,
        device=there,
    )


def reference(network: Decoder, recipe: Recipe) -> LocalTrainer:
    """A network that scores and never learns, computed as the trainer's is: nothing of it wants a gradient, nor a place in an optimiser."""
    choice = recipe.optimiser
    network.requires_grad_(False).to(device(recipe.machine.gpus))
    if choice.precision == "bfloat16" and (choice.rank or choice.offload):
        reduce(network, torch.bfloat16)
    return LocalTrainer(network, precision=choice.precision, threads=recipe.workers)


def policy(network: Decoder, tokenizer: ChatTokenizer, recipe: Recipe) -> TrainablePolicy:
    """A policy with room for every live attempt and for as many whose cache may still be of use."""
    choice = recipe.policy
    if choice.vllm:
        return VllmPolicy(
            network.config,
            merged(network),
            tokenizer,
            context=choice.context,
            sessions=recipe.sandbox.concurrency,
            python=choice.vllm,
            options=("--dtype", recipe.optimiser.precision, *(f"--{option}" for option in choice.options)),
        )
    return EmbeddedPolicy(
        network,
        tokenizer,
        sessions=2 * recipe.sandbox.concurrency,
        context=choice.context,
        threads=choice.threads,
        room=caches(recipe) if recipe.machine.gpus else 0,
        precision=recipe.optimiser.precision,
    )


def open_model(source: str | Path, recipe: Recipe) -> tuple[LocalTrainer, TrainablePolicy]:
    """Trainer and policy of a checkpoint folder or a hub id: one network's shape, rotary positions included. What is frozen is."""
    path = folder.locate(source)
    network, tokenizer = folder.load(path, recipe.policy.context, recipe.policy.yarn), ChatTokenizer.load(path)
    return trainer(network, recipe, recipe.optimiser.frozen), policy(network, tokenizer, recipe)
