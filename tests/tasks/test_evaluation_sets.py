"""The names of what others measure with."""

from __future__ import annotations

from collections import Counter

import pytest

from patchgrad.tasks.evaluation_sets import REPOSITORIES, VERIFIED_50, fifty, is_evaluation, verified
from patchgrad.testing.tasks import a_task


def test_verified_has_the_known_counts_and_holds_the_fifty() -> None:
    counts = Counter(name.rpartition("-")[0].replace("__", "/") for name in verified())
    assert [counts[name] for name in REPOSITORIES] == [22, 231, 34, 2, 1, 8, 22, 10, 19, 32, 44, 75]
    assert len(set(verified())) == 500
    assert len(set(VERIFIED_50)) == 50
    assert set(VERIFIED_50) <= set(verified())
    assert all(is_evaluation(name) for name in (*verified(), *REPOSITORIES))


@pytest.mark.parametrize(
    "name", ["kennethreitz/requests", "sympy", "https://github.com/pallets/flask.git", "swesmith/pallets__flask.85c5d93c"]
)
def test_other_names_of_the_same_code(name: str) -> None:
    assert is_evaluation(name)


@pytest.mark.parametrize(
    "name", ["psf/requests-html", "pytest-dev/pytest-mock", "pytest-dev__pytest-django-12", "pandas-dev/pandas", "boltons", ""]
)
def test_others_are_none(name: str) -> None:
    assert not is_evaluation(name)


def test_the_fifty_are_taken_where_all_are_there() -> None:
    tasks = [a_task(name, fail_to_pass=("a",)) for name in sorted(verified())]
    assert [task.id for task in fifty(tasks)] == list(VERIFIED_50)
    assert fifty([task for task in tasks if task.id != VERIFIED_50[7]]) == []
