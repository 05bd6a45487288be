"""What others measure agents with, by name, so that linting and training can refuse it: SWE-bench's repositories and Verified's ids.

`VERIFIED` are the 500 ids of SWE-bench Verified, from the public list in `verified.txt` (a repository a line, then its numbers);
`VERIFIED_50` are the fifty of them that arXiv 2508.03501 evaluates on (listing 1), in its order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from patchgrad.values import Task

REPOSITORIES = (
    "astropy/astropy",
    "django/django",
    "matplotlib/matplotlib",
    "mwaskom/seaborn",
    "pallets/flask",
    "psf/requests",
    "pydata/xarray",
    "pylint-dev/pylint",
    "pytest-dev/pytest",
    "scikit-learn/scikit-learn",
    "sphinx-doc/sphinx",
    "sympy/sympy",
)
_FIFTY = """
sympy__sympy-22080 django__django-15315 django__django-11333 matplotlib__matplotlib-20826 django__django-11532 django__django-16642
django__django-14855 sphinx-doc__sphinx-8721 pylint-dev__pylint-4604 sympy__sympy-13615 django__django-13089 django__django-15987
django__django-14725 sympy__sympy-14248 pytest-dev__pytest-7982 django__django-15280 scikit-learn__scikit-learn-13142
pytest-dev__pytest-5809 matplotlib__matplotlib-23299 django__django-16560 django__django-15103 sympy__sympy-16792
django__django-14007 psf__requests-2317 django__django-11880 django__django-16136 django__django-16661 sympy__sympy-17139
sphinx-doc__sphinx-8595 sympy__sympy-14531 django__django-10880 sympy__sympy-19346 sphinx-doc__sphinx-9229 django__django-11265
matplotlib__matplotlib-25332 scikit-learn__scikit-learn-13135 pydata__xarray-6744 pydata__xarray-6461 sympy__sympy-15017
django__django-13417 matplotlib__matplotlib-24870 django__django-15368 django__django-11095 django__django-15554
pydata__xarray-6992 django__django-15863 django__django-13363 sympy__sympy-13852 django__django-14017 pylint-dev__pylint-4661
"""
VERIFIED_50 = tuple(_FIFTY.split())
_NAMES = {name.partition("/")[2]: name for name in REPOSITORIES}


@cache
def verified() -> tuple[str, ...]:
    """The 500 ids of SWE-bench Verified, sorted by repository: `("astropy__astropy-12907", ...)`."""
    lines = (Path(__file__).parent / "verified.txt").read_text().splitlines()
    return tuple(f"{name}-{number}" for name, *numbers in map(str.split, lines) for number in numbers)


def fifty(tasks: Sequence[Task]) -> list[Task]:
    """Verified-50 of these tasks, in the paper's order; none where one of the fifty is not among them."""
    found = {task.id: task for task in tasks}
    return [found[name] for name in VERIFIED_50] if found.keys() >= set(VERIFIED_50) else []


def is_evaluation(repository_or_id: str) -> bool:
    """Is this one of SWE-bench's repositories, under any owner, or a task from one? See `repository_of`."""
    return bool(repository_of(repository_or_id))


def repository_of(repository_or_id: str) -> str:
    """The one of SWE-bench's repositories that this is, or is a task from; else nothing.

    Owners do not count, since a fork holds the same code and some of the twelve have moved: `django/django`, `kennethreitz/requests`,
    `sympy`, `https://github.com/pallets/flask.git`, `psf__requests-2317` and `swesmith/pallets__flask.85c5d93c` are;
    `psf/requests-html` is not.
    """
    last = (
        repository_or_id.replace("_", "-")
        .replace("--", "__")
        .strip()
        .rstrip("/")
        .removesuffix(".git")
        .lower()
        .rpartition("/")[2]
        .rpartition(":")[2]
    )
    _, marked, rest = last.partition("__")
    return _NAMES.get(re.sub(r"-(\d+|[0-9a-f]{7,})$|\..*$", "", rest) if marked else last, "")
