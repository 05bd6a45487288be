"""Where the parts of a repository lie, found by looking: its modules, its tests, and what of it belongs into a task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from patchgrad.errors import TaskError
from patchgrad.tasks.projects.project import SUITES, TESTS, below, is_suite

LARGEST_FILE = 1 << 20
LARGEST = 48 << 20
_ROOTS = ("src", "lib", "python", "source")
_OTHER_SUITES = ("test*.py", "*tests.py", "*test.py")
_NO_SOURCE = {
    *("__init__.py", "setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py", "versioneer.py", "ez_setup.py", "conf.py"),
    "docs.py",
}
NO_MODULES = {
    *("doc", "docs", "example", "examples", "sample", "samples", "demo", "demos", "benchmark", "benchmarks", "bench", "perf", "scripts"),
    *("script", "tools", "tool", "ci", "requirements", "build", "dist", "misc", "contrib", "extra", "extras", "fuzz", "fuzzing", "changes"),
    *("changelog", "utils", "bin", "etc", "asv_bench", "profiling", "website", "stubs", "typings", "github", "release", "dev"),
}
_LEFT_OUT = {
    *(
        ".git",
        ".hg",
        ".svn",
        ".tox",
        ".nox",
        ".venv",
        "venv",
        "env",
        "node_modules",
        "__pycache__",
        ".eggs",
        "build",
        "dist",
        "site-packages",
    ),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "_build", ".github", ".idea", ".vscode", "htmlcov"),
}
_SOURCES = (".c", ".cc", ".cpp", ".pyx", ".rs", ".f90")
_COMPILED = (".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib", ".whl", ".egg", ".o", ".a", ".class", ".jar", ".exe")


def belonging(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that go into a task: no history, nothing that was built, nothing that holds a second copy of the code.

    `TaskError` for a repository of more than 48 MiB in files of at most one.
    """
    kept = {path: content for path, content in files.items() if _belongs(path) and len(content) <= LARGEST_FILE}
    if sum(map(len, kept.values())) > LARGEST:
        raise TaskError(
            f"The repository has more than {LARGEST >> 20} MiB of files: it is too large to make tasks from; name a part of it."
        )
    return kept


def _belongs(path: str) -> bool:
    *folders, name = PurePosixPath(path).parts
    built = any(folder in _LEFT_OUT or folder.endswith((".egg-info", ".dist-info")) for folder in folders)
    return not built and not name.endswith(_COMPILED)


def suites_of(files: Collection[str], stated: tuple[str, ...] = SUITES) -> tuple[str, ...]:
    """How files with tests are named: as stated, or as usual where none is named so, or else as unittest and Django name them."""
    return next((names for names in (stated, SUITES, _OTHER_SUITES) if any(is_suite(path, names) for path in files)), SUITES)


def tests_of(files: Collection[str], names: tuple[str, ...] = SUITES) -> tuple[str, ...]:  # noqa: PT028  # this is no test
    """The folders named after tests that have tests in them, outermost first, and test files that lie elsewhere.

    `["pkg/core.py", "tests/unit/test_a.py", "test_b.py"]` -> `("test_b.py", "tests/")`. `TaskError` where there are none.
    """
    found = {_place(path) for path in files if is_suite(path, names)}
    if not found:
        raise TaskError("The repository has no tests: no file is named test_*.py or *_test.py, or as its configuration of pytest says.")
    return tuple(sorted(place for place in found if not any(place != other and below(place, (other,)) for other in found)))


def twins(files: Collection[str], suites: Iterable[str]) -> bool:
    """Have two files with tests one name as modules, so that pytest can import only one of them in its usual import mode?

    `a/test_x.py` and `b/test_x.py` have, unless there is an `__init__.py` beside each.
    """
    names = [_module(path, files) for path in suites]
    return len(set(names)) < len(names)


def _module(path: str, files: Collection[str]) -> str:
    parts = PurePosixPath(path).parts
    first = len(parts) - 1
    while first and "/".join((*parts[:first], "__init__.py")) in files:
        first -= 1
    return "/".join(parts[first:])


def _place(path: str) -> str:
    parts = PurePosixPath(path).parts
    at = next((number for number, part in enumerate(parts[:-1], 1) if part in TESTS), None)
    return "/".join(parts[:at]) + "/" if at else path


def modules_of(files: Collection[str], tests: tuple[str, ...], roots: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(modules, where they are imported from): `["src/box/core.py", ...]` -> `(("src/box/",), ("src",))`.

    `roots` are folders that are known to be imported from; a folder that holds one of them is no module. `TaskError` where there is no
    Python but tests.
    """
    python = [path for path in files if path.endswith(".py") and not below(path, tests)]
    usual = [root for root in _ROOTS if any(path.startswith(f"{root}/") for path in python) and f"{root}/__init__.py" not in files]
    every = dict.fromkeys([*roots, *(usual or [""])[:1]])
    tops = {root: _tops([path for path in python if path.startswith(f"{root}/")], f"{root}/") for root in every if root}
    tops |= {root: _tops(python, "") for root in every if not root}
    holding = {top for some in tops.values() for top in some if any(f"{other}/".startswith(top) for other in every if other)}
    kept = {root: [top for top in some if top not in holding] for root, some in tops.items()}
    found = tuple(sorted({top for some in kept.values() for top in some}))
    if not found:
        compiled = sorted(path for path in files if path.endswith(_SOURCES))
        if compiled:
            raise TaskError(f"The repository's code needs a compiler ({compiled[0]}): only pure Python can be used.")
        raise TaskError("The repository has no Python modules beside its tests.")
    return found, tuple(root for root in every if root and (root in roots or kept[root]))


def _tops(python: Collection[str], above: str) -> tuple[str, ...]:
    found = set()
    for path in python:
        first, slash, _ = path.removeprefix(above).partition("/")
        if slash:
            if first.lower() not in NO_MODULES and not first.startswith((".", "_")) and first.isidentifier():
                found.add(f"{above}{first}/")
        elif first not in _NO_SOURCE and not is_suite(above + first) and first.removesuffix(".py").isidentifier():
            found.add(above + first)
    return tuple(sorted(found))
