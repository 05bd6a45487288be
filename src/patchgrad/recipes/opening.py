"""A model that is measured, where it is to draw."""

from __future__ import annotations

from patchgrad.networks import folder
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.recipes.device import device, spare
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.recipes.plans import MARGIN


def opened(evaluation: Evaluation) -> EmbeddedPolicy:
    """The policy of a folder or a hub id. On a GPU its caches take what its weights leave, as they are in the file and as it has them."""
    path, choice = folder.locate(evaluation.policy), evaluation.evaluation
    network = folder.load(path, choice.context, evaluation.yarn).to(device(evaluation.gpus))
    weights = 8 * folder.count(network)
    return EmbeddedPolicy(
        network,
        ChatTokenizer.load(path),
        sessions=2 * evaluation.sandbox.live,
        context=choice.context,
        threads=evaluation.threads,
        training=False,
        room=int(MARGIN * spare()) - weights if evaluation.gpus else 0,
        precision="bfloat16" if evaluation.gpus else "float32",
    )
