"""The arms of the study are recipes, spend as many attempts as the recipe does, and differ from it in what they are named after."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from patchgrad.config import leaves
from patchgrad.recipes import Recipe


def _study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ablations", Path(__file__).parents[2] / "benchmarks" / "ablations.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STUDY = _study()


def attempts(recipe: Recipe) -> int:
    """Of fine-tuning and RL."""
    return recipe.rft.rounds * recipe.rft.tasks * recipe.rft.attempts + sum(s.iterations * s.tasks * s.attempts for s in recipe.stages)


@pytest.mark.parametrize("name", list(STUDY.ARMS))
def test_every_arm_spends_what_the_recipe_spends(name: str) -> None:
    control, arm = STUDY.recipe_of("control", 1), STUDY.recipe_of(name, 1)
    assert abs(attempts(arm) / attempts(control) - 1) < 0.03
    if name != "control":
        one, other = leaves(control), leaves(arm)
        differing = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} - {"name", "evaluation.after", "stages"}
        expected = set(STUDY.ARMS[name]) | {key for key in one if key.startswith("stages.1.") and len(arm.stages) < 2}
        assert differing <= expected | {key for key in one if key.startswith("stages.") and not arm.stages}
        assert differing
