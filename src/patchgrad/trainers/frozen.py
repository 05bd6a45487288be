"""Which parameters of a network are trained."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import Decoder


def trainable(network: Decoder, frozen: Sequence[str] = ()) -> dict[str, Tensor]:
    """The parameters that are trained; those whose names match stay as they are from now on, and cost no gradient.

    `trainable(network, ("model.embed_tokens.weight", "model.layers.0.*"))`; `ConfigError` for a pattern that no parameter has, or if none
    is left.
    """
    named = dict(network.named_parameters())
    if lost := next((pattern for pattern in frozen if not fnmatch.filter(named, pattern)), None):
        raise ConfigError(f"optimiser.frozen names {lost}, and the policy has no such parameter: its first is {next(iter(named))}")
    still = {name for pattern in frozen for name in fnmatch.filter(named, pattern)}
    if len(still) == len(named):
        raise ConfigError("optimiser.frozen names all parameters of the policy, and nothing is left to train")
    for name in still:
        named[name].requires_grad_(False)
    return {name: parameter for name, parameter in named.items() if parameter.requires_grad}
