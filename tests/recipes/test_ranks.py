from __future__ import annotations

import pytest

from patchgrad.config import override
from patchgrad.errors import ConfigError
from patchgrad.recipes import smoke


@pytest.mark.parametrize(
    ("changes", "ranks", "workers", "beside"),
    [
        ({"optimiser.threads": "3"}, 0, 3, 3),
        ({"machine.gpus": "1"}, 0, 1, 1),
        ({"machine.gpus": "8"}, 8, 8, 1),
        ({"optimiser.threads": "3", "trainer": "sharded"}, 3, 3, 3),
        ({"trainer": "sharded", "trainer.ranks": "4"}, 4, 4, 4),
    ],
)
def test_several_gpus_have_a_rank_each_and_a_sharded_trainer_as_many_as_it_is_told(
    changes: dict[str, str], ranks: int, workers: int, beside: int
) -> None:
    recipe = override(smoke(), changes)
    assert (recipe.ranks, recipe.workers, recipe.beside) == (ranks, workers, beside)


@pytest.mark.parametrize("wrong", ["0", "-2", "many", "1.5"])
def test_a_number_of_ranks_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"trainer.ranks is .* it counts processes, from 1"):
        override(smoke(), {"trainer": "sharded", "trainer.ranks": wrong})
