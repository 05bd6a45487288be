"""The recipe `cluster-tiny`: every part of a cluster at the size of two cores. It says nothing about skill.

patchgrad train cluster-tiny --cluster local:3
"""

from __future__ import annotations

from dataclasses import replace

from patchgrad.config import override
from patchgrad.recipes.change import Change, both, values
from patchgrad.recipes.laptop import smoke
from patchgrad.recipes.recipe import Recipe

CLUSTER_TINY = (
    Change(
        "a network in parts on four processes, of which two share what is longer than a micro-batch",
        {"trainer": "sharded", "trainer.ranks": "4", "trainer.together": "2"},
    ),
    Change("so that something is longer", {"optimiser.micro_batch_tokens": "512"}),
    Change("two policies beside them", {"policy.replicas": "2"}),
    Change(
        "so that steps are made although nothing is solved",
        both(
            {
                "advantage.filter_on": "nothing",
                "advantage.failures.no_command": "penalise",
                "advantage.failures.truncated": "penalise",
                "advantage.failures.bad_arguments": "penalise",
            }
        ),
    ),
    Change("a look at what the policies say", {"guards.spot": "0.25"}),
    Change("an iteration whose attempts are made while another one trains", both({"iterations": "2"}) | {"stages.1.sampling.lag": "1"}),
)
"""What `cluster-tiny` has otherwise than `smoke`, and why."""


def cluster_tiny() -> Recipe:
    """Four ranks, two replicas and a lag of one: all that a cluster runs, for minutes."""
    return override(replace(smoke(), name="cluster-tiny"), values(*CLUSTER_TINY))
