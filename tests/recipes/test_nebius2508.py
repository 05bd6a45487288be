"""The paper's recipe is the paper's, and what differs at a smaller scale is told with its reason."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from patchgrad.agents import prompts_full
from patchgrad.agents.tools import toolset
from patchgrad.config import dumps, leaves, loads, override, written
from patchgrad.errors import ConfigError
from patchgrad.recipes import Recipe, laptop, nebius2508, smoke
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.nebius2508 import CHANGES, PAPER, READ, REPORTED, UNREPORTED, Scale
from patchgrad.recipes.rows import ROWS
from patchgrad.runs.api import train
from patchgrad.runs.printing import Origin, full, nearest, of_rows, remarks, resolved, short
from patchgrad.runs.reading import read_recipe
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run

EVERY = pytest.mark.parametrize("scale", get_args(Scale))
PAGE = Path(__file__).parents[2] / "docs" / "paper.md"


def test_the_cluster_s_recipe_has_the_numbers_of_the_paper_s_table_3_and_appendix_c() -> None:
    assert nebius2508("cluster") == PAPER
    first, second = PAPER.stages
    for stage, row in ((first, (65_536, 300, 10, 128, 0.2, 0.3, 40, 10)), (second, (131_072, 100, 10, 256, 0.2, 0.26, 80, 10))):
        drawn, limits, made = stage.sampling, stage.limits, stage.row
        reach = (limits.context, drawn.tasks, drawn.attempts, stage.loss.minibatch, made.clip_low, made.clip_high)
        assert (*reach, limits.turns, stage.reward.length_threshold) == row
        assert (stage.algorithm, stage.lr, stage.reward.length_weight, stage.loss.kl_penalty.weight) == ("dapo", 1e-6, 1.0, 0.0)
        assert stage.advantage == AdvantageChoice(), "and nothing that is ours"
        assert (replace(made, clip_high=0.28), drawn.top_p) == (ROWS["dapo"], 1.0), "DAPO, but for the upper bound"
    assert (first.start.refresh_before, second.start.refresh_before) == (False, True)
    steps, rft = PAPER.optimiser, PAPER.rft
    assert (steps.name, steps.betas, steps.epsilon, steps.weight_decay, steps.clip) == ("adamw", (0.9, 0.999), 1e-8, 0.1, 1.0)
    assert (rft.attempts, rft.epochs, rft.lr, rft.schedule, rft.warmup, rft.demonstration) == (10, 1, 5e-6, "cosine", 10, True)
    assert (PAPER.policy.model, PAPER.policy.context, PAPER.policy.yarn) == ("Qwen/Qwen2.5-72B-Instruct", 131_072, 4.0)
    assert (PAPER.evaluation.attempts, PAPER.tasks.train) == (10, 7249)


def test_the_laptop_s_recipe_is_the_paper_s_at_its_scale() -> None:
    assert override(laptop(), {"name": "nebius2508"}) == nebius2508("laptop")


@EVERY
def test_every_change_changes_something_and_nothing_is_changed_twice(scale: Scale) -> None:
    keys = [key for change in CHANGES[scale] for key in change.to]
    assert len(keys) == len(set(keys))
    paper, own = leaves(PAPER), leaves(nebius2508(scale))
    assert [key for key in keys if own[key] == paper[key]] == []
    assert all(len(change.why) > 5 for change in CHANGES[scale])


@EVERY
def test_what_is_printed_tells_each_difference_with_its_reason_and_reads_back_equal(scale: Scale) -> None:
    recipe = nebius2508(scale)
    text = full(recipe)
    assert loads(Recipe, text) == recipe
    told, paper = remarks(recipe), leaves(PAPER)
    assert told.keys() >= of_rows(recipe).keys()
    for key, value in leaves(recipe).items():
        if paper[key] != value:
            assert re.match("(paper|cluster): .*; .", told[key]), key
    assert len(re.findall(r"^# \S", text, re.MULTILINE)) == len(told) + 1


def test_a_value_of_the_reader_s_own_gets_no_reason() -> None:
    told = remarks(override(nebius2508("laptop"), {"rft.lr": "0.5", "agent.window": "7"}))
    assert told["rft.lr"] == "paper: 5e-06"
    assert told["agent.window"] == "cluster: 60"
    assert "minutes" in told["stages.1.iterations"]


def test_other_recipes_print_as_they_are() -> None:
    own = override(laptop(), {"name": "mine"})
    assert full(own) == dumps(own, of_rows(own))


def test_what_the_paper_does_not_tell_or_not_in_one_way_is_a_field_and_stands_on_the_page() -> None:
    values: dict[str, list[str]] = {}
    for key, value in resolved(PAPER).items():
        values.setdefault(re.sub(r"\.\d+\.", ".*.", key), []).append(written(value))
    page = PAGE.read_text().splitlines()
    for key, why in {**READ, **UNREPORTED}.items():
        assert f"| `{key}` | {', '.join(dict.fromkeys(values[key]))} | {why} |" in page
    assert set(values) >= REPORTED
    assert REPORTED.isdisjoint(READ.keys() | UNREPORTED.keys())
    assert READ.keys().isdisjoint(UNREPORTED)


def test_nothing_is_called_the_paper_s_that_it_does_not_tell() -> None:
    changed = remarks(
        override(laptop(), {"seed": "3", "optimiser.threads": "1", "stages.0.advantage.discount": "0.5", "sandbox.image": "x"})
    )
    assert "name" not in changed
    assert [changed[key][:8] for key in ("seed", "optimiser.threads", "stages.0.advantage.discount", "sandbox.image")] == ["cluster:"] * 4


@pytest.mark.parametrize("scale", ["gpu", "cluster"])
def test_all_turns_of_a_stage_fit_into_its_context(scale: Scale) -> None:
    """At 3 characters a token, which is few, for code with line numbers; actions have 350 tokens in the mean."""
    agent = nebius2508(scale).agent
    system = prompts_full.system([(tool.name, tool.usage) for tool in toolset().values()], demonstration=False)
    prompt = (len(system) + len(prompts_full.first("x" * 6000))) / 3
    for stage in nebius2508(scale).stages:
        assert prompt + stage.limits.turns * (agent.longest / 3 + 350) <= stage.limits.context


@pytest.mark.parametrize(("scale", "says"), [("gpu", "torch sees none"), ("cluster", "torch sees none")])
def test_a_scale_that_cannot_be_trained_here_says_what_it_needs_before_anything_starts(
    scale: Scale, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    recipe = nebius2508(scale)
    with Run.create(tmp_path / "run", dumps(recipe)) as run, pytest.raises(ConfigError, match=says):
        train(recipe, run, Silent())


def test_a_scale_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="There is no scale moon; there are: laptop, gpu, cluster"):
        nebius2508("moon")  # type: ignore[arg-type]


def test_policies_between_are_measured_under_their_own_limits_where_the_recipe_says_so() -> None:
    paper, laptop = nebius2508("cluster"), nebius2508("laptop")
    for phase in (paper.rft, paper.stages[0]):
        own = paper.evaluation.under(phase)
        assert (own.limits.turns, own.limits.context, own.attempts) == (40, 65_536, 10)
    assert paper.evaluation.under(None) == paper.evaluation
    assert (paper.evaluation.limits.turns, paper.evaluation.limits.context) == (80, 131_072)
    assert laptop.evaluation.under(laptop.stages[0]) == laptop.evaluation


@pytest.mark.parametrize("origin", [Origin("laptop"), Origin("smoke"), Origin("nebius2508", "gpu"), Origin("nebius2508", "cluster")])
def test_what_differs_from_a_preset_is_a_file_that_reads_back(origin: Origin) -> None:
    recipe = override(origin.recipe, {"seed": "3", "stages.1.lr": "2e-5", "rft.cap": "7", "reward": "mine:small", "reward.weight": "2"})
    text = short(recipe, origin)
    assert read_recipe(text) == recipe
    plain = [line for line in text.splitlines() if line and not line.startswith("#")]
    scale = [f'scale = "{origin.scale}"'] if origin.scale else []
    changed = ["seed = 3", 'reward = {name = "mine:small", weight = 2}', "[rft]", "cap = 7", "[stages.1]", "lr = 2e-05"]
    assert plain == [f'preset = "{origin.name}"', *scale, *changed]
    shorter = replace(recipe, stages=recipe.stages[:1])
    assert read_recipe(short(shorter, origin)) == shorter, "with another number of stages all are written"
    assert nearest(recipe) == origin


def test_below_it_stands_what_the_preset_has_otherwise_than_the_one_before_it_and_why() -> None:
    text = short(laptop(), Origin("laptop"))
    assert "#   stages.0.reward.unsubmitted = 0.5   was 0.0" in text
    assert "# to go on in vain has to cost more than a wrong submission (docs/studies/climb.md)" in text
    assert "otherwise than laptop, and why" in short(smoke(), Origin("smoke"))
    assert "otherwise" not in short(PAPER, Origin("nebius2508", "cluster")), "the paper's own is made from nothing"


def test_an_algorithm_s_own_is_told_where_a_stage_sets_nothing() -> None:
    assert of_rows(PAPER)["stages.0.loss.clip_low"] == "dapo: 0.2"
    assert resolved(PAPER)["stages.1.loss.clip_low"] == 0.2
    assert resolved(PAPER)["stages.1.loss.clip_high"] == 0.26
    assert '# dapo: 0.2\nclip_low = "none"' in full(PAPER)
