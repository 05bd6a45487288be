"""What is learned from and what is measured with: whole groups, nothing of others' evaluation, and a stated mix."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.errors import TaskError
from patchgrad.tasks.sets import Member
from patchgrad.tasks.splits import LOOK_ALIKES, MIX, By, groups, mixed, split, trainable
from patchgrad.testing.tasks import a_task
from patchgrad.values import Task


def task(name: str, **tags: str) -> Task:
    return a_task(name, fail_to_pass=("t::a",), tags=tags)


def member(name: str, **tags: str) -> Member:
    return Member(task(name, **{"split": "train", **tags}), {"report": ""}, "")


MANY = [
    member(f"{package}-{number}", package=package, family=family, kind="repair", created_at=f"2026-0{number}-01")
    for package in ("toolz", "funcy", "parse", "semver", "isodate", "xmltodict")
    for number, family in enumerate(("op_swap", "cmp_boundary", "swap_args"), 1)
]


def sides(found: list[Member], tag: str) -> dict[str, set[str]]:
    told: dict[str, set[str]] = {}
    for one in found:
        told.setdefault(one.task.tags[tag], set()).add(one.task.tags["split"])
    return told


@given(st.sampled_from([0.2, 0.4, 0.5]), st.integers(0, 50))
def test_a_share_holds_out_whole_repositories_and_their_look_alikes(share: float, seed: int) -> None:
    found = split(MANY, "repository", share, seed)
    by_package = sides(found, "package")
    assert all(len(where) == 1 for where in by_package.values())
    assert by_package["toolz"] == by_package["funcy"]
    held = sum(one.task.tags["split"] == "held_out" for one in found)
    assert 0 < held < len(found)
    assert [one.task.id for one in found] == [one.task.id for one in MANY]


@pytest.mark.parametrize(("by", "named", "out"), [("family", ["op_swap"], {"op_swap"}), ("repository", ["funcy"], {"toolz", "funcy"})])
def test_named_values_are_held_out(by: By, named: list[str], out: set[str]) -> None:
    found = sides(split(MANY, by, named), {"family": "family", "repository": "package"}[by])
    assert {name for name, where in found.items() if where == {"held_out"}} == out


def test_by_date_what_came_last_is_held_out() -> None:
    found = sides(split(MANY, "date", ["2026-03-01"]), "created_at")
    assert found == {"2026-01-01": {"train"}, "2026-02-01": {"train"}, "2026-03-01": {"held_out"}}
    found = sides(split(MANY, "date", 0.3), "created_at")
    assert found["2026-03-01"] == {"held_out"}
    assert found["2026-01-01"] == {"train"}


def test_evaluation_stays_evaluation_and_is_never_trained_on() -> None:
    theirs = member("django__django-1", package="django/django", split="evaluation")
    found = split([*MANY, theirs], "repository", 0.3)
    assert found[-1].task.tags["split"] == "evaluation"
    disguised = member("mine-1", package="pallets/flask")
    left = trainable([*(one.task for one in found), disguised.task])
    assert {one.tags["split"] for one in left} == {"train"}
    assert not {"mine-1", "django__django-1"} & {one.id for one in left}


def test_a_split_that_leaves_a_side_empty_or_knows_nothing_is_refused() -> None:
    with pytest.raises(TaskError, match="leaves every task on the side train"):
        split(MANY, "family", ["no_such"])
    with pytest.raises(TaskError, match="does not say its date"):
        split([member("a", package="x")], "date", 0.5)


def test_a_package_is_in_one_group_of_look_alikes_at_most() -> None:
    counts = Counter(name for group in LOOK_ALIKES for name in group)
    assert max(counts.values()) == 1
    assert groups([member("alone-1", package="alone")])["alone"] == "alone"


def test_a_package_is_on_the_side_of_those_whose_tests_install_it() -> None:
    user = member("user-1", package="user")
    user = replace(user, task=replace(user.task, packages=("semver==3.0", "unknown==1.0")))
    found = sides(split([*MANY, user], "repository", ["semver"]), "package")
    assert {name for name, where in found.items() if where == {"held_out"}} == {"semver", "user"}
    assert "unknown" not in groups([*MANY, user])


KINDS = st.sampled_from([*MIX, "other"])


@given(st.dictionaries(KINDS, st.integers(1, 40), min_size=1), st.sets(st.sampled_from(list(MIX))), st.integers(1, 99), st.integers(0, 9))
def test_a_mix_takes_what_is_wanted_alone_and_never_the_same_twice(pools: dict[str, int], without: set[str], count: int, seed: int) -> None:
    tasks = [task(f"{kind}-{number}", kind=kind) for kind, size in pools.items() for number in range(size)]
    mix = {kind: 0.0 if kind in without else share for kind, share in MIX.items()}
    wanted = [one for one in tasks if mix.get(one.tags["kind"])]
    if not wanted:
        with pytest.raises(TaskError, match="No task is of a kind that is wanted"):
            mixed(tasks, mix, count, seed)
        return
    found = mixed(tasks, mix, count, seed)
    assert len(found) == min(count, len(wanted))
    assert len({one.id for one in found}) == len(found)
    assert {one.id for one in found} <= {one.id for one in wanted}
    assert [one.id for one in found] == [one.id for one in mixed(tasks, mix, count, seed)]


def test_a_mix_has_its_shares_where_there_is_enough_of_each() -> None:
    tasks = [task(f"{kind}-{number}", kind=kind) for kind in MIX for number in range(100)]
    counts = Counter(one.tags["kind"] for one in mixed(tasks, MIX, 100, 0))
    assert counts == {"repair": 50, "pair": 15, "implement": 15, "history": 20}
    with pytest.raises(TaskError, match="No task is of a kind that is wanted"):
        mixed(tasks, {"other": 1.0}, 10, 0)
