"""What a recipe has besides attempts, tried once: made as a run makes it, about a small network, it does what it does in a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from patchgrad.errors import PatchgradError, PolicyFault
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.build import learner
from patchgrad.runs.build.replicas import replicated
from patchgrad.values import Batch, StepSettings

WORDS = "def add(left, right):\n    return left + right\n"
VOCABULARY = 512


@dataclass(frozen=True, slots=True)
class Role:
    """What was tried, in how many seconds, and why it did not do, if so."""

    name: str
    seconds: float
    fault: str = ""


def roles(recipe: Recipe, cluster: str, batch: Callable[[int], Batch]) -> Iterator[Role]:
    """The ranks of its trainer make a step together, and its replicas each open, and take over weights that are published to them.

    `batch` makes sequences for a vocabulary of this size. Actors are those of the `cluster`, in which this process is.
    """
    tokenizer = ChatTokenizer.train([WORDS], VOCABULARY)
    network = Decoder(_shape(recipe, tokenizer), seed=recipe.seed)
    if recipe.ranks:
        yield _tried(f"{recipe.ranks} ranks of the trainer make a step together", partial(_step, network, recipe, batch))
    if recipe.policy.replicas:
        told = f"{recipe.policy.replicas} replicas of the policy take over published weights"
        yield _tried(told, partial(_published, network, tokenizer, recipe, cluster))


def _shape(recipe: Recipe, tokenizer: ChatTokenizer) -> DecoderConfig:
    """Two layers with as many heads as a model can be split over."""
    return DecoderConfig(
        VOCABULARY,
        hidden=512,
        layers=2,
        heads=8,
        kv_heads=8,
        head_size=64,
        intermediate=512,
        context=recipe.policy.context,
        eos=(tokenizer.stop,),
    )


def _tried(name: str, work: Callable[[], None]) -> Role:
    began, fault = time.monotonic(), ""
    try:
        work()
    except PatchgradError as error:
        fault = str(error)
    return Role(name, time.monotonic() - began, fault)


def _step(network: Decoder, recipe: Recipe, batch: Callable[[int], Batch]) -> None:
    learner.trainer(network, recipe).update(batch(VOCABULARY), cross_entropy, StepSettings(1e-3))  # its ranks end with it


def _published(network: Decoder, tokenizer: ChatTokenizer, recipe: Recipe, cluster: str) -> None:
    policy = replicated(network, tokenizer, recipe, cluster)
    try:
        policy.load(dict(network.named_parameters()), 1)
        if (serving := len(policy.lives.present.serving())) < recipe.policy.replicas:
            raise PolicyFault(f"only {serving} of them did: look into the log of the others' machines")
    finally:
        policy.close()
