"""Which tasks a recipe trains on, is measured on, and shows: from a set, of some families, with generated ones beside them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.learning.curricula.test_pool import a_task

from patchgrad.recipes import Recipe
from patchgrad.recipes.component import Component
from patchgrad.recipes.evaluation_choice import Validation
from patchgrad.recipes.recipe import Mix, PolicyChoice, TaskSource
from patchgrad.recipes.warmup import Warmup
from patchgrad.runs.demonstrations.lessons import dealt
from patchgrad.runs.tasks import run_tasks as tasks
from patchgrad.tasks.sets import Member, save
from patchgrad.tasks.synthetic import synthetic_tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty-four tasks of two families, a third of them held out."""
    made = tmp_path_factory.mktemp("set")
    found = synthetic_tasks(24, 0, False, made / "archives", (1,), ("op_swap", "cmp_negate"))
    tagged = [replace(task, tags={**task.tags, "of": "set", "split": "train" if n % 3 else "held_out"}) for n, task in enumerate(found)]
    save(made, [Member(task, {"report": task.instruction}, "", "") for task in tagged])
    return made


def recipe(folder: Path, **more: object) -> Recipe:
    source = TaskSource(Component("set"), train=12, held_out=4, folder=str(folder), **more)  # type: ignore[arg-type]
    return Recipe(name="set", tasks=source, warmup=Warmup(tasks=5))


def test_tasks_are_the_set_s_and_what_is_shown_are_generated_ones_and_those_of_one_wrong_line(folder: Path, tmp_path: Path) -> None:
    found = tasks(recipe(folder), tmp_path)
    generated, planted = found.shown
    assert (len(found.train), len(found.held_out), len(generated)) == (12, 4, 5)
    assert {task.tags["split"] for task in found.held_out} == {"held_out"}
    assert all("of" in task.tags for task in (*found.train, *found.held_out))
    assert not any("of" in task.tags for task in generated)
    assert {task.id for task in planted} == {task.id for task in found.train}, "here each of them"
    model = replace(recipe(folder), policy=PolicyChoice(model="somewhere"))
    assert not any(tasks(model, tmp_path).shown), "a model of the user's is shown nothing"


def test_generated_tasks_stand_beside_those_of_a_set(folder: Path, tmp_path: Path) -> None:
    found = tasks(recipe(folder, mix=Mix(synthetic=0.5)), tmp_path)
    assert ["of" in task.tags for task in found.train] == [True] * 6 + [False] * 6
    assert found.shown[0] == found.train[6:11], "those that are shown are among them"
    assert len(found.train) == 12


def test_tasks_for_validation_are_some_of_those_to_train_on_and_are_not_trained_on_or_shown(folder: Path, tmp_path: Path) -> None:
    whole = tasks(recipe(folder), tmp_path)
    some = replace(recipe(folder), validation=Validation(tasks=3))
    found = tasks(some, tmp_path)
    assert len(found.validation) == 3
    assert sorted(task.id for task in (*found.train, *found.validation)) == sorted(task.id for task in whole.train)
    apart = {task.id for task in found.validation}
    assert not any(task.id in apart for kind in (found.train, found.held_out, *found.shown) for task in kind)
    assert tasks(some, tmp_path) == found
    assert {task.id for task in tasks(replace(some, seed=1), tmp_path).validation} != apart
    most = tasks(replace(some, validation=Validation(tasks=60)), tmp_path)
    assert (len(most.validation), len(most.train)) == (3, 9), "at most a quarter of few"


def test_a_set_s_bugs_may_be_of_some_families_alone(folder: Path, tmp_path: Path) -> None:
    found = tasks(recipe(folder, planted=("cmp_negate",)), tmp_path)
    assert {task.tags["family"] for task in (*found.train, *found.held_out)} == {"cmp_negate"}


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 40), st.integers(0, 9))
def test_a_lesson_takes_no_task_again_before_it_had_all_of_its_kind(one: int, other: int, count: int, seed: int) -> None:
    pools = [[a_task(f"{kind}{n}") for n in range(size)] for kind, size in (("a", one), ("b", other))]
    found = dealt(pools, count, random.Random(seed))
    times = Counter(task.id for task, _ in found)
    assert sum(times.values()) == count
    for pool in pools:
        had = [times[task.id] for task in pool]
        assert max(had) - min(had) <= 1
    assert {(task.id, before) for task, before in found} == {(name, n) for name, most in times.items() for n in range(most)}
    assert found == dealt(pools, count, random.Random(seed))
