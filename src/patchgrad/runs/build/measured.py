"""A model that is measured, where it is to draw, and what that takes."""

from __future__ import annotations

from contextlib import AbstractContextManager

from patchgrad.errors import OutOfMemory
from patchgrad.networks import folder
from patchgrad.networks.attention import TILE
from patchgrad.networks.paged import PAGE
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.vllm import Installed, VllmPolicy
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.runs.planning.advice import exhausted
from patchgrad.runs.planning.device import device, spare
from patchgrad.runs.planning.estimate import remembered
from patchgrad.runs.planning.host_memory import free
from patchgrad.runs.planning.plan import MARGIN, size


def opened(evaluation: Evaluation) -> EmbeddedPolicy:
    """The policy of a folder or a hub id. On a GPU its caches take what its weights leave, as they are in the file and as it has them.

    `OutOfMemory`, before anything is loaded, where the weights alone are too large.
    """
    choice, there = evaluation.evaluation, _free(evaluation)
    weights = _weights(evaluation)
    if weights > MARGIN * there:
        told = f"{evaluation.policy} takes {size(weights)} and {size(there)} are free"
        raise OutOfMemory(f"{told}: take a smaller model or a larger machine.")
    path = folder.locate(evaluation.policy)
    network = folder.load(path, choice.limits.context, evaluation.yarn).to(device(evaluation.gpus))
    return EmbeddedPolicy(
        network,
        ChatTokenizer.load(path),
        sessions=2 * evaluation.sandbox.concurrency,
        context=choice.limits.context,
        threads=evaluation.threads,
        room=int(MARGIN * spare()) - weights if evaluation.gpus else 0,
        precision="bfloat16" if evaluation.gpus else "float32",
    )


def by_vllm(evaluation: Evaluation, python: str) -> VllmPolicy:
    """The policy of a folder or a hub id as vLLM serves it, which this Python has."""
    path, context = folder.locate(evaluation.policy), evaluation.evaluation.limits.context
    network = folder.load(path, context, evaluation.yarn)
    return VllmPolicy(
        network.config,
        dict(network.named_parameters()),
        ChatTokenizer.load(path),
        context=context,
        sessions=evaluation.sandbox.concurrency,
        vllm=Installed(python, ("--dtype", "bfloat16" if evaluation.gpus else "float32")),
    )


def afforded(evaluation: Evaluation) -> AbstractContextManager[None]:
    """An allocation that fails while it is measured becomes `OutOfMemory`, with what takes less."""
    return exhausted(lambda: _told(evaluation))


def _told(evaluation: Evaluation) -> str:
    choice, live, gpus = evaluation.evaluation, evaluation.sandbox.concurrency, evaluation.gpus
    page, each = (PAGE, 2) if gpus else (TILE, 4)
    caches = remembered(folder.shape(evaluation.policy), 2 * live, choice.limits.context, page, each)
    return (
        f"the model takes {size(_weights(evaluation))}, the caches of {2 * live} attempts that fill their context up to {size(caches)}, "
        f"and {size(_free(evaluation))} are free. "
        f"Less is taken with --sandbox.concurrency {max(1, live // 2)} or a shorter --evaluation.limits.context."
    )


def _weights(evaluation: Evaluation) -> int:
    """Bytes of the weights as they are in the file and as the policy has them."""
    return 8 * folder.shape(evaluation.policy).parameters


def _free(evaluation: Evaluation) -> int:
    return spare() if evaluation.gpus else free()
