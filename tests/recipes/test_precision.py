"""What a recipe multiplies in: where sampler and trainer differ by choice, that is corrected; `auto` is what the machine is made for."""

from __future__ import annotations

from typing import Literal

import pytest

from patchgrad.config import override
from patchgrad.errors import ConfigError
from patchgrad.networks import rounding
from patchgrad.networks.rounding import Precision, settled
from patchgrad.recipes import laptop
from patchgrad.recipes.change import both

CORRECTED = both({"loss.old": "recomputed", "loss.correction.truncate_token": "2"})


def test_a_sampler_that_rounds_where_the_trainer_does_not_is_refused_without_a_correction() -> None:
    with pytest.raises(ConfigError, match=r"policy\.precision is bfloat16 and optimiser\.precision float32.*recomputed"):
        override(laptop(), {"policy.precision": "bfloat16"})
    assert override(laptop(), {"policy.precision": "bfloat16"} | CORRECTED).sampled_in == "bfloat16"


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "auto"])
def test_the_policy_samples_as_is_trained_unless_it_is_told_otherwise(precision: str) -> None:
    assert override(laptop(), {"optimiser.precision": precision}).sampled_in == precision


@pytest.mark.parametrize(("gpu", "multiplies", "found"), [(True, False, "bfloat16"), (False, True, "bfloat16"), (False, False, "float32")])
def test_auto_is_what_the_machine_is_made_for(gpu: bool, multiplies: bool, found: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "multiplies_bfloat16", lambda: multiplies)
    asked: tuple[Literal["auto"] | Precision, ...] = ("auto", "float32", "bfloat16")
    assert [settled(one, gpu) for one in asked] == [found, "float32", "bfloat16"]
