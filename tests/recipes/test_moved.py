"""A run that an older version made is read; in a file and on a command line a key that moved is named with where it is now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.cli import main
from patchgrad.config import dumps, leaves, loads, override
from patchgrad.errors import ConfigError
from patchgrad.recipes import Evaluation, Recipe, laptop, nebius2508, smoke
from patchgrad.recipes.moved import MOVED
from patchgrad.runs.printing import resolved
from patchgrad.runs.reading import change, load_evaluation, load_recipe, read_recipe

OLD = Path(__file__).parent / "old"
"""What `patchgrad train NAME --print` wrote before keys were grouped, and the same with today's keys (`NAME.regrouped.toml`)."""


@pytest.mark.parametrize("name", ["laptop", "smoke"])
def test_a_run_s_recipe_of_an_older_version_means_what_it_meant(name: str) -> None:
    text, regrouped = (OLD / f"{name}.toml").read_text(), (OLD / f"{name}.regrouped.toml").read_text()
    assert resolved(load_recipe(text)) == resolved(loads(Recipe, regrouped))
    with pytest.raises(ConfigError, match=r"There is no key tasks\.mix\.workshop; it is tasks\.mix\.synthetic now\. \d+ more"):
        read_recipe(text)


def test_what_a_row_had_of_its_own_and_has_no_more_is_kept() -> None:
    text = (OLD / "smoke.toml").read_text()
    assert load_recipe(text).stages[0].row.clip_high == 0.3, "which was dapo's, where the paper's DAPO has 0.28"
    plain = text.replace('algorithm = "dapo"', 'algorithm = "reinforce"').replace("clip_high = 0.26", 'clip_high = "none"')
    assert load_recipe(plain).stages[0].row.filter_on == "nothing", "it never asked whether attempts differ"
    compared = plain.replace('"reinforce"', '"grpo"')
    assert load_recipe(compared).stages[0].row.filter_on == "outcome"


def test_a_run_s_recipe_of_today_is_read_as_it_is() -> None:
    for recipe in (laptop(), smoke(), nebius2508("cluster"), replace(laptop(), stages=())):
        assert load_recipe(dumps(recipe)) == recipe
    old = '[sandbox]\nlive = 3\nonce = true\n\n[evaluation]\nturns = 7\nlimits = "own"\n'
    own = {"evaluation.limits.turns": "7", "evaluation.limits_per_policy": "own", "sandbox.cache": "true", "sandbox.concurrency": "3"}
    assert load_evaluation(old) == override(Evaluation(), own)


def test_every_key_that_moved_is_one_of_today_s_and_none_is_of_both() -> None:
    now = {".".join("*" if part.isdigit() else part for part in key.split(".")) for key in leaves(laptop())}
    for old, new in MOVED.items():
        assert any(key.startswith(new) for key in now) if new.endswith(".") else new in now, new
        assert not (any(key.startswith(old) for key in now) if old.endswith(".") else old in now), old
    assert len(MOVED) > 40


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("stages.0.turns", "There is no key stages.0.turns; it is stages.0.limits.turns now."),
        ("stages.1.penalty.weight", "There is no key stages.1.penalty.weight; it is stages.1.loss.kl_penalty.weight now."),
        ("stages.0.failures.looping", "There is no key stages.0.failures.looping; it is stages.0.advantage.failures.looping now."),
        ("stages.0.starts", "There is no key stages.0.starts; it is stages.0.start.at now."),
        ("evaluation.limits", "There is no key evaluation.limits; it is evaluation.limits_per_policy now."),
        ("optimiser.pack", "There is no key optimiser.pack; it is optimiser.micro_batch_tokens now."),
    ],
)
def test_a_key_that_moved_is_refused_with_its_new_name(key: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        change(laptop(), {key: "1"})
    assert str(caught.value) == sentence
    with pytest.raises(ConfigError) as caught:
        read_recipe(f'preset = "laptop"\n{key} = 1')
    assert str(caught.value) == sentence


def test_a_file_begins_from_a_preset_or_has_every_key() -> None:
    text = 'preset = "laptop"\nname = "mine"\n\n[stages.1.limits]\nturns = 5\n\n[stages.1.reward]\nlength_threshold = 4\n'
    own = {"name": "mine", "stages.1.limits.turns": "5", "stages.1.reward.length_threshold": "4"}
    assert read_recipe(text) == override(laptop(), own)
    assert read_recipe('preset = "nebius2508"\nscale = "cluster"\n') == nebius2508("cluster")
    whole = read_recipe('preset = "laptop"\n[[stages]]\nalgorithm = "grpo"\n').stages
    assert [stage.algorithm for stage in whole] == ["grpo"], "stages that are listed are all there are"
    for wrong, sentence in (
        ('preset = "laptp"', "There is no recipe laptp"),
        ('preset = "laptop"\nscale = "gpu"', "laptop has one scale"),
        ('preset = "laptop"\n[stages.2]\nlr = 1', "There is no key stages.2; valid here: 0, 1."),
        ('preset = "laptop"\nsede = 1', "There is no key sede; did you mean seed?"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            read_recipe(wrong)


def test_an_old_file_is_told_its_new_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\n[[stages]]\nturns = 9\n')
    assert main(["train", str(tmp_path / "mine.toml")]) == 2
    assert capsys.readouterr().err == "patchgrad: There is no key stages.0.turns; it is stages.0.limits.turns now.\n"
    assert loads(Recipe, "name = 'x'\n[rft.limits]\nturns = 3").rft.limits.context == 1536, "what a table leaves out keeps its default"
