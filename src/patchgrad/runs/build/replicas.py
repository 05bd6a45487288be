"""A policy whose replicas sample beside the process that trains: processes of this machine, or actors of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from patchgrad.errors import ClusterFault
from patchgrad.links import Link
from patchgrad.links.link import OPENING
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import merged
from patchgrad.networks.rounding import multiplies_bfloat16, settled
from patchgrad.policies.replicas.far import FAR
from patchgrad.policies.replicas.lives import Made, Opening
from patchgrad.policies.replicas.making import EMBEDDED, VLLM
from patchgrad.policies.replicas.policy import ReplicatedPolicy
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.policies.vllm import Installed
from patchgrad.recipes.recipe import Recipe

VISIBLE = "CUDA_VISIBLE_DEVICES"


def replicated(network: Decoder, tokenizer: ChatTokenizer, recipe: Recipe, cluster: str = "") -> ReplicatedPolicy:
    """The recipe's replicas, with a session for each live attempt at any of them: one may be left alone with all."""
    choice = recipe.policy
    options: dict[str, Any] = {"context": choice.context, "within": choice.update == "token"}
    if choice.by_vllm:
        options |= {"sessions": recipe.sandbox.concurrency, "vllm": installed(recipe)}
    else:
        gpu = recipe.machine.gpus > 0
        options |= {"sessions": 2 * recipe.sandbox.concurrency, "threads": choice.threads, "precision": settled(recipe.sampled_in, gpu)}
        options |= {"gpu": gpu, "rounds": multiplies_bfloat16()}
    made = Made(
        actors(recipe) if cluster else processes(recipe), VLLM if choice.by_vllm else EMBEDDED, options, within=choice.update == "token"
    )
    model = network.config, merged(network), tokenizer
    return ReplicatedPolicy(made, choice.replicas, model, context=choice.context, untied=choice.by_vllm)


def installed(recipe: Recipe) -> Installed:
    """The recipe's vLLM, which computes in the precision that is sampled in."""
    precision = settled(recipe.sampled_in, recipe.machine.gpus > 0)
    return Installed(recipe.policy.vllm, ("--dtype", precision, *(f"--{option}" for option in recipe.policy.options)))


def processes(recipe: Recipe) -> Opening:
    """Processes of this machine. With GPUs each has some of its own, as far as there are; after the last ones the first are next."""
    gpus, each = recipe.machine.gpus, recipe.policy.split
    seen = os.environ[VISIBLE].split(",") if os.environ.get(VISIBLE) else [str(number) for number in range(gpus)]

    async def opened(number: int) -> Link:
        from patchgrad.links.processes import ProcessLink

        own = [seen[(number * each + i) % len(seen)] for i in range(each)] if gpus else []
        environment: Mapping[str, str] = {VISIBLE: ",".join(own)} if own else {}
        return ProcessLink(f"replica {number}", FAR, environment=environment)

    return opened


def actors(recipe: Recipe, seconds: float = OPENING) -> Opening:
    """Actors of the Ray cluster that this process is in, spread over its nodes; with GPUs each has some of its own.

    Ray knows of no GPU on machines that train (`launch.start`), so a replica that has some is on another one. It has to be there in so many
    seconds.
    """
    gpus = recipe.policy.split if recipe.machine.gpus else 0
    needed = {"num_cpus": 0, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}

    async def opened(number: int) -> Link:
        from patchgrad.links.ray_link import RayLink, nodes

        found = max((node["Resources"].get("GPU", 0) for node in await nodes() if node["Alive"]), default=0)
        link = RayLink(f"replica {number}", needed, FAR)
        try:
            await link.opened(seconds)
        except BaseException as error:
            link.kill()
            if found < gpus and isinstance(error, ClusterFault):
                raise ClusterFault(
                    f"a replica takes {gpus} GPUs, and no machine of the cluster has as many for replicas; those of machines that train "
                    "are the trainer's: have others join (patchgrad cluster join)"
                ) from error
            raise
        return link

    return opened
