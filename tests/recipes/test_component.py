"""A part by its name, with options, in a file and on a command line."""

from __future__ import annotations

import pytest

from patchgrad.config import dumps, leaves, loads, override
from patchgrad.errors import ConfigError
from patchgrad.recipes import Recipe, laptop
from patchgrad.recipes.component import Component

PARTS = {
    "reward": "tests",
    "curriculum": "pool",
    "trainer": "local",
    "agent.scaffold": "react",
    "tasks.source": "synthetic",
    "sandbox.backend": "bwrap",
}


def test_every_part_s_name_is_what_is_used_where_nothing_is_said() -> None:
    own = leaves(Recipe("x"))
    assert {key: own[key] for key in PARTS} == {key: Component(name) for key, name in PARTS.items()}
    assert (own["judges"], own["agent.tools"], own["trackers"], own["policy.implementation"]) == ((), (), (Component("terminal"),), None)
    assert (own["stages.0.advantage.estimator"], own["stages.0.loss.objective"]) == (None, None)


def test_a_name_with_options_prints_and_reads_back() -> None:
    part = Component("mine:small", {"weight": 2.0, "names": ["a", "b"], "on": True})
    recipe = override(laptop(), {"reward": "mine:small", "reward.weight": "2.0", "reward.names": '["a", "b"]', "reward.on": "true"})
    assert recipe.reward == part
    text = dumps(recipe)
    assert 'reward = {name = "mine:small", weight = 2.0, names = ["a", "b"], on = true}\n' in text
    assert loads(Recipe, text) == recipe
    assert 'reward = "tests"\n' in dumps(laptop())
    assert Component("mine:small").own
    assert not Component("tests").own


def test_a_command_line_sets_them() -> None:
    recipe = override(laptop(), {"reward": "mine:small", "reward.weight": "2", "reward.mode": "plain words"})
    assert recipe.reward == Component("mine:small", {"weight": 2, "mode": "plain words"})
    assert override(recipe, {"reward.weight": "3"}).reward.options == {"weight": 3, "mode": "plain words"}
    assert override(recipe, {"reward": "tests"}).reward == Component("tests"), "another name begins without options"
    tools = override(laptop(), {"agent.tools": "mine:a, mine.b:c", "agent.tools.1.depth": "2"}).agent.tools
    assert tools == (Component("mine:a"), Component("mine.b:c", {"depth": 2}))
    own = override(laptop(), {"stages.0.advantage.estimator": "mine:estimate", "stages.1.loss.objective": "mine:cost"})
    assert own.stages[0].row.estimator == Component("mine:estimate")
    assert loads(Recipe, dumps(own)) == own
    assert override(own, {"stages.0.advantage.estimator": "none"}).stages[0].row.estimator == Component("normalised")


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("reward", "test", "reward: test is not registered; there are tests, and one of your own is written package.module:attribute"),
        ("judges", "reviewer", "judges: reviewer is not registered; there are patch-size, and one of your own is written"),
        ("sandbox.backend", "docker", "sandbox.backend: docker is not registered; there are bwrap, oci, landlock, and"),
        ("reward", "a b", "'a b' is no name of a part; it is a registered name, or package.module:attribute"),
        ("reward.name", "x", "reward.name is set as reward, which begins without options: --reward x"),
        ("stages.0.loss.objective", "hinge", "a stage's loss.objective: hinge is not registered; there are reinforce, clip"),
    ],
)
def test_what_nobody_has_registered_is_refused(key: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override(laptop(), {key: text})
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("reward = 3", "reward must be a name, or a table with a name and its options, but 3 was given."),
        ("reward = {weight = 2}", "reward is a table without a name"),
        ("judges = 'x'", "judges must be a list"),
    ],
)
def test_a_wrong_part_in_a_file_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(Recipe, f'name = "x"\n{text}')
    assert str(caught.value).startswith(sentence)


def test_a_package_registers_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Points:
        names = frozenset({"flaky-aware"})

    monkeypatch.setattr("patchgrad.recipes.component.entry_points", lambda group: Points() if group == "patchgrad.rewards" else None)
    assert override(laptop(), {"reward": "flaky-aware"}).reward == Component("flaky-aware")
