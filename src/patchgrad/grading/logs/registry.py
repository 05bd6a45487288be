"""Readers by name, under the names that SWE-bench's and SWE-rebench's rows use, and by repository where rows name none."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.grading.logs import compiled, junit, summaries, unittests, verbose
from patchgrad.grading.logs.django import django
from patchgrad.grading.logs.harbor import harbor
from patchgrad.grading.logs.sympy import sympy
from patchgrad.values import Status

Reader = Callable[[str], dict[str, Status]]

_FIRST_WORDS = ("astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray", "pydantic", "dvc")

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "parse_log_pytest": summaries.first_words,
        "parse_log_pytest_options": summaries.short_options,
        "parse_log_pytest_v2": summaries.whole_ids,
        "parse_log_pytest_nebo": verbose.timed,
        "parse_log_django": django,
        "parse_log_sympy": sympy,
        "parse_log_seaborn": summaries.passed_and_failed,
        "parse_log_matplotlib": summaries.mouse_buttons,
        **{f"parse_log_{name}": summaries.first_words for name in _FIRST_WORDS},
        **{f"parse_log_{name}": summaries.short_options for name in ("pydicom", "requests", "pylint")},
        **{f"parse_log_{name}": summaries.whole_ids for name in ("astropy", "scikit", "sphinx")},
        "parse_log_junit": junit.junit,
        "parse_combined_test_reports": junit.junit_reports,
        "parse_log_gotest": compiled.gotest,
        "parse_log_cargo": compiled.cargo,
        "harbor": harbor,
        "pytest_verbose": verbose.verbose,
        "autograd": verbose.verbose,
        "paramiko": verbose.status_first,
        "mypy": verbose.last_word,
        "python_slugify": unittests.dotted,
        "tornado": unittests.tornado,
    }
)
"""Name -> reader; the last six are SWE-smith's, whose rows name no reader."""

_SWE_BENCH = {
    "astropy/astropy": "parse_log_astropy",
    "django/django": "parse_log_django",
    "marshmallow-code/marshmallow": "parse_log_marshmallow",
    "matplotlib/matplotlib": "parse_log_matplotlib",
    "mwaskom/seaborn": "parse_log_seaborn",
    "pallets/flask": "parse_log_flask",
    "psf/requests": "parse_log_requests",
    "pvlib/pvlib-python": "parse_log_pvlib",
    "pydata/xarray": "parse_log_xarray",
    "pydicom/pydicom": "parse_log_pydicom",
    "pylint-dev/astroid": "parse_log_astroid",
    "pylint-dev/pylint": "parse_log_pylint",
    "pytest-dev/pytest": "parse_log_pytest",
    "pyvista/pyvista": "parse_log_pyvista",
    "scikit-learn/scikit-learn": "parse_log_scikit",
    "sqlfluff/sqlfluff": "parse_log_sqlfluff",
    "sphinx-doc/sphinx": "parse_log_sphinx",
    "sympy/sympy": "parse_log_sympy",
}
_SWE_SMITH = {
    "gin-gonic/gin": "parse_log_gotest",
    "HIPS/autograd": "autograd",
    "paramiko/paramiko": "paramiko",
    "python/mypy": "mypy",
    "tornadoweb/tornado": "tornado",
    "un33k/python-slugify": "python_slugify",
}
_SMITH_ID = re.compile(r"(.+?__.+?)\.[0-9a-f]{8}(?:\.|$)")


def reader(name: str) -> Reader:
    """The reader of this name; `TaskError` says which there are."""
    if name in READERS:
        return READERS[name]
    near = difflib.get_close_matches(name, READERS, n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(sorted(READERS))}."
    raise TaskError(f"There is no reader of logs called {name!r}: {hint}")


def reader_name(row: Mapping[str, Any]) -> str:
    """The reader that a row of a foreign data set wants: the one it names, else its repository's, else pytest's summary.

    `{"repo": "django/django"}` -> `parse_log_django`; `{"instance_id": "getmoto__moto.694ce1f4.pr_7331"}`, whose form is SWE-smith's,
    -> `pytest_verbose`; `{"install_config": {"log_parser": "parse_log_pytest_v2"}}` -> `parse_log_pytest_v2`.
    """
    config = row.get("install_config")
    named = row.get("log_parser") or (config.get("log_parser") if isinstance(config, Mapping) else None)
    if named:
        return str(named)
    repository = str(row.get("repo") or "")
    if repository in _SWE_BENCH:
        return _SWE_BENCH[repository]
    smith = _SMITH_ID.match(repository.removeprefix("swesmith/")) or _SMITH_ID.match(str(row["instance_id"]))
    return _SWE_SMITH.get(smith[1].replace("__", "/"), "pytest_verbose") if smith else "parse_log_pytest"
