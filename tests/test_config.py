"""A recipe is a value that can be printed, read back and edited, and mistakes in it are named."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.config import dumps, loads, override
from patchgrad.errors import ConfigError


@dataclass(frozen=True)
class Stage:
    turns: int = 8
    context: int = 1024
    clip: tuple[float, float] = (0.2, 0.3)


@dataclass(frozen=True)
class Warmup:
    steps: int = 3
    note: str | None = "warm"


@dataclass(frozen=True)
class Recipe:
    name: str = "laptop"
    rate: float = 1e-5
    fast: bool = False
    optimiser: Literal["muon", "adam"] = "muon"
    families: tuple[str, ...] = ("off by one",)
    stage: Stage = Stage()
    warmup: Warmup | None = None
    stages: tuple[Stage, ...] = field(default_factory=lambda: (Stage(), Stage(turns=12)))
    limit: int | None = 3


@dataclass(frozen=True)
class Checked:
    turns: int

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ConfigError(f"turns must be at least 1, but {self.turns} was given.")


@dataclass(frozen=True, slots=True)
class Pair:
    source: str = "workshop"
    folder: str = ""

    def __post_init__(self) -> None:
        if self.source == "set" and not self.folder:
            raise ConfigError("A set needs a folder.")


words = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: text != "none")
numbers = st.floats(allow_nan=False)
stages = st.builds(Stage, st.integers(), st.integers(), st.tuples(numbers, numbers))
recipes = st.builds(
    Recipe,
    name=st.text(st.characters(exclude_categories=["Cs"])),
    rate=numbers,
    fast=st.booleans(),
    optimiser=st.sampled_from(["muon", "adam"]),
    families=st.lists(words).map(tuple),
    stage=stages,
    warmup=st.none() | st.builds(Warmup, st.integers(), st.none() | words),
    stages=st.lists(stages).map(tuple),
    limit=st.none() | st.integers(),
)


@given(recipes)
def test_what_was_written_reads_back_equal(recipe: Recipe) -> None:
    assert loads(Recipe, dumps(recipe)) == recipe


@given(recipes)
def test_writing_is_stable(recipe: Recipe) -> None:
    assert dumps(loads(Recipe, dumps(recipe))) == dumps(recipe)


def test_the_text_is_plain_toml() -> None:
    text = dumps(Recipe(warmup=Warmup(note=None)))
    assert text.startswith('name = "laptop"\nrate = 1e-05\nfast = false\n')
    assert '[warmup]\nsteps = 3\nnote = "none"\n' in text
    assert "[[stages]]\nturns = 8\n" in text


def test_not_a_number_survives() -> None:
    assert math.isnan(loads(Recipe, dumps(Recipe(rate=math.nan))).rate)


def test_missing_keys_keep_their_defaults() -> None:
    assert loads(Recipe, "rate = 1\n[stage]\nturns = 5") == Recipe(rate=1.0, stage=Stage(turns=5))


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("rate", "2", Recipe(rate=2.0)),
        ("fast", "true", Recipe(fast=True)),
        ("stage.turns", "12", Recipe(stage=Stage(turns=12))),
        ("stage.clip", "0.1,0.4", Recipe(stage=Stage(clip=(0.1, 0.4)))),
        ("stages.1.turns", "20", Recipe(stages=(Stage(), Stage(turns=20)))),
        ("warmup.steps", "9", Recipe(warmup=Warmup(steps=9))),
        ("warmup", "none", Recipe()),
        ("limit", "none", Recipe(limit=None)),
        ("families", "", Recipe(families=())),
        ("families", "a, b", Recipe(families=("a", "b"))),
        ("optimiser", "adam", Recipe(optimiser="adam")),
    ],
)
def test_a_dotted_key_sets_one_field(key: str, text: str, expected: Recipe) -> None:
    assert override(Recipe(), {key: text}) == expected


def test_fields_that_are_valid_only_together_change_together_in_any_order() -> None:
    changes = {"source": "set", "folder": "mine"}
    for order in (changes, dict(reversed(changes.items()))):
        assert override(Pair(), order) == Pair("set", "mine")
    with pytest.raises(ConfigError, match="needs a folder"):
        override(Pair(), {"source": "set"})
    assert override(Recipe(), {"warmup.steps": "9", "warmup": "none", "stage.turns": "2", "stage.context": "7"}) == Recipe(
        warmup=Warmup(steps=9), stage=Stage(turns=2, context=7)
    )


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("stage.turn", "12", "There is no key stage.turn; did you mean stage.turns?"),
        ("stages.7.turns", "12", "There is no key stages.7; valid here: 0, 1."),
        ("stage.turns", "many", "stage.turns must be a whole number, but 'many' was given."),
        ("fast", "yes", "fast must be true or false, but 'yes' was given."),
        ("optimiser", "sgd", "optimiser must be one of muon, adam, but 'sgd' was given."),
        ("stage.clip", "0.1", "stage.clip must be a list of 2 items, but '0.1' was given."),
        ("stage", "x", "stage is a table with turns, context, clip: set one of these, as in stage.turns."),
        ("stages.1", "x", "stages.1 is a table with turns, context, clip: set one of these, as in stages.1.turns."),
        ("rate.x", "1", "rate is a number and has no key x in it."),
    ],
)
def test_a_wrong_key_or_value_is_named(key: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override(Recipe(), {key: text})
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rat = 1", "There is no key rat; did you mean rate?"),
        ("[stage]\nturns = 1.5", "stage.turns must be a whole number, but 1.5 was given."),
        ("[stage]\nturns = true", "stage.turns must be a whole number, but true was given."),
        ("families = [1]", "families.0 must be text, but 1 was given."),
        ("stage = 3", "stage must be a table with turns, context, clip, but 3 was given."),
        ("limit = 'x'", "limit must be a whole number or none, but 'x' was given."),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(Recipe, text)
    assert str(caught.value) == sentence


def test_broken_toml_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        loads(Recipe, "rate =")


def test_the_recipe_itself_checks_its_values() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        loads(Checked, "turns = 0")
    with pytest.raises(ConfigError, match="turns is missing"):
        loads(Checked, "")


def test_text_that_would_read_back_as_absent_is_refused() -> None:
    with pytest.raises(ConfigError, match="means that it is absent"):
        dumps(Warmup(note="none"))
