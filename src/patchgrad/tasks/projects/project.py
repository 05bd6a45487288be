"""What is known about a repository with tests before any of them ran."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Literal

TESTS = {"test", "tests", "_test", "_tests", "testing", "unittests", "unit_tests"}
SUITES = ("test_*.py", "*_test.py")


@dataclass(frozen=True, slots=True)
class Project:
    """A repository with tests: where it can be had again, where its parts lie, and which packages its tests need.

    `address` is what `kind` is found by: the SHA-256 of a source distribution or of a folder's files, or a commit. `sources` and `tests`
    are paths below its top: a file, or a folder ending with a slash; `paths` is where its modules are imported from, as in `("src",)`.
    `requires` are requirements as it states them, `extras` those it states for tests and development; `packages` are pins of what its
    tests were found to need, `plugins` modules of these that pytest is told to load, which it does not do by itself in a sandbox.
    `entry_points` is the text of its `entry_points.txt`, `suites` are the names of files with tests, `pytest` lines of its own
    configuration of pytest that are kept, `import_mode` how it says that pytest has to import its tests.
    """

    name: str
    version: str
    kind: Literal["sdist", "folder", "git"]
    address: str
    licence: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    paths: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    entry_points: str = ""
    suites: tuple[str, ...] = SUITES
    pytest: tuple[str, ...] = ()
    location: str = ""
    import_mode: str = ""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    def is_source(self, path: str) -> bool:
        """May this file carry a bug?"""
        return path.endswith(".py") and not self.is_test(path) and below(path, self.sources)

    def is_test(self, path: str) -> bool:
        """Does this file judge? `conftest.py` and test data count: an agent that may edit them could pass without a repair."""
        return below(path, self.tests) or PurePosixPath(path).name == "conftest.py"

    def is_suite(self, path: str) -> bool:
        """Does this file hold tests that pytest collects?"""
        return self.is_test(path) and is_suite(path, self.suites)


TOP_TESTS = ("test.py", "tests.py")
"""Files with all the tests of a small project, at its top; elsewhere these are names of modules too."""


def below(path: str, places: tuple[str, ...]) -> bool:
    """Is the path one of these, or in one of these folders? `below("a/b.py", ("a/",))`."""
    return any(path == place or (place.endswith("/") and path.startswith(place)) for place in places)


def is_suite(path: str, names: tuple[str, ...] = SUITES) -> bool:
    """Does a file have a name that pytest collects? Of names such as `*.py` only those count that speak of tests."""
    file = PurePosixPath(path)
    usual = file.suffix == ".py" and file.name not in ("__init__.py", "conftest.py")
    about = "test" in file.name.lower() or not TESTS.isdisjoint(file.parts[:-1])
    named = any(fnmatch(f"/{path}", f"*/{name}") if "/" in name else fnmatch(file.name, name) for name in names)
    return path in TOP_TESTS or (usual and about and named)
