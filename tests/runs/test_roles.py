"""What a recipe has besides attempts is tried about a small network before a run needs it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from patchgrad.cli import main
from patchgrad.config import override
from patchgrad.recipes.cluster_tiny import cluster_tiny
from patchgrad.runs.inspection.roles import roles
from patchgrad.testing.trainer import example_batches
from patchgrad.values import Batch


def batch(vocabulary: int) -> Batch:
    return example_batches(vocabulary)[1]


def test_ranks_make_a_step_and_replicas_take_over_weights() -> None:
    tried = list(roles(override(cluster_tiny(), {"trainer.ranks": "2"}), "", batch))
    assert [(one.name, one.fault) for one in tried] == [
        ("2 ranks of the trainer make a step together", ""),
        ("2 replicas of the policy take over published weights", ""),
    ]


@pytest.mark.skipif(find_spec("vllm") is not None, reason="this Python has vLLM")
def test_what_does_not_open_is_told_and_takes_nothing_with_it() -> None:
    ranks, replicas = roles(override(cluster_tiny(), {"trainer.ranks": "2", "policy.vllm": sys.executable}), "", batch)
    assert not ranks.fault
    assert "vllm" in replicas.fault.lower()


def test_a_recipe_is_looked_at_on_a_cluster_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke"]) == 2
    assert "add --cluster" in capsys.readouterr().err
    assert main(["check", "smok", "--cluster", "local:2"]) == 2
    assert "smoke" in capsys.readouterr().err
