"""Which changes are a solution, which are put back, and which were made to win without one.

Everything that could decide the tests is **put back**, so it cannot have helped. What an honest attempt may do as well, such as a
changed test or a `conftest.py` above it, is therefore held against an attempt only where the tests do not hold without it. What no
honest attempt has a reason to do, such as a file that runs at every start of Python, is **tamper evidence** in any case.
"""

from __future__ import annotations

import ast
import configparser
import doctest
import posixpath
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from patchgrad.values import Task

Entries = Mapping[str, tuple[int, bytes | None]]

_INI = {"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"}
_MIXED = {"tox.ini", "setup.cfg", "pyproject.toml"}
_START = {"sitecustomize.py", "usercustomize.py"}
_HEADER = re.compile(r"^diff --git (.+)$|^(?:rename|copy) to (.+)$|^--- (.+)\n\+\+\+ (.+)\n@@ ", re.MULTILINE)
_NAMES = re.compile(r"^--- ([^\t\n]+).*\n\+\+\+ ([^\t\n]+)|^rename (?:from|to) (.+)$|^diff --git a/(.+) b/\4$", re.MULTILINE)
_ADDED = re.compile(r"^--- /dev/null\n\+\+\+ b/([^\t\n]+)|^(?:rename|copy) to (.+)$", re.MULTILINE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_TEST = re.compile(r"(test_.*|.*_test)\.py")


@dataclass(frozen=True, slots=True)
class Finding:
    """A path that is put back; `evidence` says why it counts as tampering, `None` if it does not.

    What is not `sure` an honest attempt may do as well, and counts only against one that does not solve the task without it.
    """

    path: str
    evidence: str | None = None
    sure: bool = False


class Guard:
    """The rules for one task: `Guard(task).suspects(entries)` names the paths whose earlier state has to be looked up."""

    def __init__(self, task: Task) -> None:
        checks = task.checks
        ids = (*checks.fail_to_pass, *checks.pass_to_pass)
        self._documented = {path: [test for test in ids if test.split("::")[0] == path] for path in documented(ids)}
        tests = {test.split("::")[0] for test in ids} - self._documented.keys()
        self.deciding = tests | {file.path for file in checks.files} | set(touched(checks.patch))
        self._hidden = set(touched(checks.patch))
        self._reported = checks.parser == "report"
        self._protected = {path.rstrip("/") for path in checks.protected}
        self._folders = {folder for path in self.deciding for folder in folders(path)}
        self._tests = {folder for folder in self._folders if posixpath.basename(folder) in ("test", "tests")}

    def suspects(self, entries: Entries) -> list[str]:
        """The changed paths that some rule is about, outermost first; a folder that was only made or touched is none."""
        return [path for path, (mode, content) in sorted(entries.items()) if self._suspect(path, mode, content)]

    def _suspect(self, path: str, mode: int, content: bytes | None) -> bool:
        if content is not None and stat.S_ISDIR(mode):
            return path.split("/")[-1] == "__pycache__"
        name = posixpath.basename(path)
        return (
            name in _INI | _MIXED | _START | {"conftest.py"}
            or name.endswith((".pth", ".pyc", ".pyo"))
            or stat.S_ISLNK(mode)
            or _metadata(path)
            or path in self._documented
            or self.guards(path)
            or self._holds(path)
        )

    def compares(self, path: str) -> bool:
        """Does `judge` need the content that the repository has at this path?"""
        return path in self._documented or (posixpath.basename(path) in _MIXED and posixpath.dirname(path) in self._folders)

    def judge(self, path: str, entry: tuple[int, bytes | None], before: bytes | None, existed: bool) -> Finding | None:
        """What is done about a suspect: `before` is its content in the repository where that matters, `existed` whether it was one.

        `None` leaves it as the submission made it.
        """
        mode, content = entry
        name, folder = posixpath.basename(path), posixpath.dirname(path)
        did = "deleted" if content is None else "edited" if existed else "added"
        if self._holds(path):
            return Finding(path, f"replaced {path}, which holds tests", sure=True)
        if path in self.deciding - self._hidden and existed:
            return Finding(path, f"{did} test {path}")
        if name in _START or (name.endswith(".pth") and re.search(rb"^import\b", content or b"", re.MULTILINE)):
            return Finding(path, f"{did} {path}, which runs at every start of Python", sure=True)
        if name in _INI | _MIXED | {"conftest.py"} and folder in self._folders:
            if name in _MIXED and _pytest_section(name, content) == _pytest_section(name, before):
                return None
            return Finding(path, f"{did} configuration {path}")
        if self.guards(path):
            if not existed and self._stays(path, mode):
                return None
            helps = existed and _TEST.fullmatch(name) is None and name.endswith(".py")
            return Finding(path, f"{did} {path}, which the tests use" if helps else None)
        if path in self._documented:
            lost = [test for test in self._documented[path] if not examples(test, content) >= examples(test, before)]
            return Finding(path, f"changed what {lost[0]} expects") if lost else None
        if stat.S_ISLNK(mode) and _leaves(path, content or b""):
            return Finding(path, f"replaced {path} by a link out of the repository" if existed else None, sure=True)
        cached = name.endswith((".pyc", ".pyo")) or name == "__pycache__"
        return Finding(path) if not existed and (name == "conftest.py" or cached or _metadata(path)) else None

    def guards(self, path: str) -> bool:
        """Does this path hold tests that decide, or stand beside them, or is it named as protected?"""
        return path in self.deciding or any(part in self._protected | self._tests for part in (path, *folders(path)))

    def places(self) -> list[str]:
        """Where everything lies that decides: files, and folders with all that is in them. Not each of them need be there."""
        settings = {posixpath.join(folder, name) for folder in self._folders for name in _INI | _MIXED | {"conftest.py"}}
        return sorted(self.deciding | self._protected | self._tests | settings)

    def seals(self, path: str) -> bool:
        """Is this to stay as it is while tests run? Data of tests that is not hidden need not: tests rewrite theirs."""
        folder, name = posixpath.split(path)
        return path in self.deciding or name.endswith(".py") or (name in _INI | _MIXED and folder in self._folders)

    def _stays(self, path: str, mode: int) -> bool:
        """Is this new file beside tests a module that no test that decides loads?

        The grader's finder does not let it take another one's place, and pytest does not look through it; `conftest.py` files, and what
        makes a package of a folder of tests, are another matter.
        """
        folder, name = posixpath.split(path)
        decides = name == "conftest.py" or path in self.deciding or (name == "__init__.py" and folder in self._folders)
        return self._reported and name.endswith(".py") and stat.S_ISREG(mode) and not decides

    def _holds(self, path: str) -> bool:
        """Is this, no folder any more, above a test that decides?"""
        return path in self._folders


def outside(patch: str) -> str | None:
    """The first path in a patch's headers that is not below the repository, or is below `.git`; `None` if there is none.

    `git apply` refuses these, `patch` not all of them.
    """
    for found in _HEADER.finditer(patch):
        for name in found.groups():
            parts = re.split(r"[/ \t\"]", name or "")
            if ".." in parts or ".git" in parts or ((name or "").startswith("/") and not (name or "").startswith("/dev/null")):
                return name
    return None


def touched(patch: str) -> list[str]:
    """The paths that a patch in git's format makes, changes or takes away, each once: from `--- a/x` and `+++ b/x`, and from renames."""
    found: dict[str, None] = {}
    for line in _NAMES.finditer(patch):
        old, new, *whole = line.groups()
        names = [*whole, *(name.partition("/")[2] for name in (old, new) if name and name != "/dev/null")]
        found |= dict.fromkeys(name for name in names if name)
    return list(found)


def added(patch: str) -> list[str]:
    """The paths that a patch in git's format makes, by adding, renaming or copying: `--- /dev/null` before `+++ b/x`."""
    return [new or moved for new, moved in _ADDED.findall(patch)]


def folders(path: str) -> list[str]:
    """Everything above a path: `a/b/c.py` -> `["a/b", "a", ""]`."""
    found = []
    while path:
        path = posixpath.dirname(path)
        found.append(path)
    return found


def documented(tests: Iterable[str]) -> set[str]:
    """The files of sources whose docstrings have expected tests: `shop/cart.py::shop.cart.total` is one of `shop/cart.py`."""
    return {file for file, _, name in (test.partition("::") for test in tests) if file.endswith(".py") and "." in name.partition("[")[0]}


def examples(test: str, source: bytes | None) -> set[tuple[str, str]]:
    """What a docstring's test says and expects, as far as the source can be read: `{("total([1])\n", "1\n")}`."""
    try:
        tree = ast.parse(source or b"")
        name, parser = test.rpartition(".")[2], doctest.DocTestParser()
        texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, _DOCUMENTED) and _called(node) in (name, "")]
        return {(example.source, example.want) for text in texts for example in parser.get_examples(text)}
    except (SyntaxError, ValueError, RecursionError):  # of an example too, whose lines do not stand below each other
        return set()


def _called(node: ast.AST) -> str:
    """The name of a function or class; a module has none."""
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""


def _metadata(path: str) -> bool:
    """Does this say what is installed, and so which plugins pytest loads?"""
    return any(part.endswith((".egg-info", ".dist-info")) for part in path.split("/"))


def _leaves(path: str, target: bytes) -> bool:
    aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), target.decode("utf-8", "surrogateescape")))
    return aim.startswith(("/", "../")) or aim == ".."


def _pytest_section(name: str, content: bytes | None) -> object:
    """The part of a shared configuration file that pytest reads; a file that cannot be parsed is its own, differing part."""
    text = (content or b"").decode("utf-8", "replace")
    try:
        if name == "pyproject.toml":
            return tomllib.loads(text).get("tool", {}).get("pytest", {})
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
    except (tomllib.TOMLDecodeError, configparser.Error):
        return text
    section = "pytest" if name == "tox.ini" else "tool:pytest"
    return dict(parser[section]) if parser.has_section(section) else {}
