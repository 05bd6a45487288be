"""How many GPUs a replica asks for."""

from __future__ import annotations

import pytest

from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import PolicyChoice


def test_a_replica_takes_the_gpus_that_its_model_is_split_over() -> None:
    assert PolicyChoice().split == 1
    assert PolicyChoice(vllm="python", options=("tensor_parallel_size=4", "pipeline-parallel-size=2")).split == 8


@pytest.mark.parametrize("part", ["two", "0", ""])
def test_a_split_that_is_no_number_is_refused_by_name(part: str) -> None:
    with pytest.raises(ConfigError, match="tensor-parallel-size"):
        _ = PolicyChoice(vllm="python", options=(f"tensor-parallel-size={part}",)).split
