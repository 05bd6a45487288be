"""A commit as a task: what of it repairs, what of it tests, and the reasons for which it is not even tried.

Limits as in arXiv 2508.03501, section 4: at most seven files and fewer than 500 lines of the repair, here counted as added plus removed.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from patchgrad.errors import TaskError
from patchgrad.tasks.history.clone import Clone, Commit
from patchgrad.tasks.projects.furnish import CONFIG, prepare
from patchgrad.tasks.projects.layout import belonging
from patchgrad.tasks.projects.project import Project, below, is_suite
from patchgrad.tasks.projects.source import Found, project_of

MOST_FILES = 7
MOST_LINES = 500
_MOST_TEST_PATCH = 400_000
_ABOUT_TESTS = {CONFIG, ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py", ".coveragerc"}
_VERSION = re.compile(r"_*(version|version_?info|version_?tuple|date|build|release|revision|author|copyright|year)_*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Split:
    """A commit in two patches. `before` is its parent with the new tests, `after` has the repair too; the agent sees `tree`.

    `suites` are the test files that its tests are in. Files that say how the project is built or tested are in neither patch.
    """

    commit: Commit
    project: Project
    tree: Mapping[str, bytes]
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    repair: str
    tests: str
    suites: tuple[str, ...]
    sources: tuple[str, ...]
    files: int
    lines: int


def split(clone: Clone, commit: Commit) -> Split | str:
    """The commit as a task to try, or in a few words why it is none."""
    early = _early(commit)
    if early:
        return early
    new = clone.files(commit.sha)
    if not any(is_suite(path) for path in new):
        return "no tests"
    try:
        project, whole = project_of(Found("git", commit.sha, clone.name, commit.sha[:10], clone.location, new))
        old = belonging(clone.files(commit.parents[0]))
    except TaskError:
        return "no project"
    tree = {**{path: content for path, content in whole.items() if path not in new}, **old}
    changed = [path for path in commit.paths if old.get(path) != whole.get(path) and PurePosixPath(path).name not in _ABOUT_TESTS]
    tests = [path for path in changed if project.is_test(path)]
    repair = [path for path in changed if not project.is_test(path)]
    sources = [path for path in repair if path.endswith(".py") and below(path, project.sources)]
    suites = tuple(sorted(path for path in tests if project.is_suite(path) and path in whole))
    reason = _reason(commit, old, whole, suites, sources, repair)
    if reason:
        return reason
    return _parted(clone, commit, _Changed(project, tree, whole, tests, repair, suites, tuple(sources)))


def loaded(found: Split, plugins: tuple[str, ...]) -> Split:
    """The same with these plugins of pytest: its configuration names them in each of the three trees."""
    project = replace(found.project, plugins=plugins)
    config = {CONFIG: prepare(project, found.tree)[CONFIG]}
    trees = [{**files, **config} for files in (found.tree, found.before, found.after)]
    return replace(found, project=project, tree=trees[0], before=trees[1], after=trees[2])


def _early(commit: Commit) -> str:
    """What the names of the changed files alone tell."""
    if len(commit.parents) > 1:
        return "merge"
    if not commit.parents:
        return "first commit"
    if commit.when is None:
        return "no date"
    python = [path for path in commit.paths if path.endswith(".py")]
    tested = [path for path in python if is_suite(path) or "test" in path.lower()]
    if not tested:
        return "no tests" if python else "no Python"
    return "" if len(tested) < len(python) else "no source"


def _reason(
    commit: Commit, old: Mapping[str, bytes], new: Mapping[str, bytes], suites: Sequence[str], sources: Sequence[str], repair: Sequence[str]
) -> str:
    if not suites:
        return "no tests"
    if not sources:
        return "no source"
    if len(repair) > MOST_FILES or sum(commit.paths[path] for path in repair) >= MOST_LINES:
        return "too large"
    parsed = [(_parsed(old.get(path)), _parsed(new.get(path))) for path in sources]
    if any(after is None for _, after in parsed) or any(_parsed(new[path]) is None for path in suites):
        return "written for another Python"
    if all(_meaning(before, False) == _meaning(after, False) for before, after in parsed):
        return "only comments, documentation or form"
    if all(_meaning(before, True) == _meaning(after, True) for before, after in parsed):
        return "only a version"
    return ""


def _parsed(content: bytes | None) -> ast.Module | None:
    try:
        return ast.parse(content or b"")
    except (SyntaxError, ValueError, RecursionError):
        return None


def _meaning(tree: ast.Module | None, no_versions: bool) -> str:
    """A module's syntax tree without what no test of behaviour could notice."""
    if tree is None:
        return "another Python's"
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[1:]
    if no_versions:
        tree.body = [node for node in tree.body if not _tells_the_version(node)]
    return ast.dump(tree)


def _tells_the_version(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) and _VERSION.fullmatch(t.id) for t in node.targets)


@dataclass(frozen=True, slots=True)
class _Changed:
    """A commit's files: the `tree` before it, the `whole` after it, and which of those that it changed are what."""

    project: Project
    tree: Mapping[str, bytes]
    whole: Mapping[str, bytes]
    tests: Sequence[str]
    repair: Sequence[str]
    suites: tuple[str, ...]
    sources: tuple[str, ...]


def _parted(clone: Clone, commit: Commit, changed: _Changed) -> Split | str:
    tests, repair = changed.tests, changed.repair
    try:
        patches = [clone.patch(commit.parents[0], commit.sha, paths) for paths in (repair, tests)]
    except UnicodeDecodeError:
        return "no UTF-8"
    if re.search(r"^(new file mode|old mode|new mode|deleted file mode) 1[26]0000", "".join(patches), re.MULTILINE):
        return "changes links"
    if len(patches[1]) > _MOST_TEST_PATCH:
        return "too many lines of tests"
    seen = prepare(changed.project, changed.tree)
    before = _with(seen, changed.whole, tests)
    after = _with(before, changed.whole, repair)
    if not _fits(seen, after, [*repair, *tests], patches):
        return "does not apply"
    lines = sum(commit.paths[path] for path in repair)
    sides = (seen, before, after, patches[0], patches[1])
    return Split(commit, changed.project, *sides, changed.suites, changed.sources, len(repair), lines)


def _with(files: Mapping[str, bytes], whole: Mapping[str, bytes], paths: Sequence[str]) -> dict[str, bytes]:
    """The files with these of them as they are after the commit, or gone as there."""
    kept = {path: content for path, content in files.items() if path not in paths}
    return kept | {path: whole[path] for path in paths if path in whole}


def _fits(old: Mapping[str, bytes], new: Mapping[str, bytes], paths: Sequence[str], patches: Sequence[str]) -> bool:
    """Do the patches, applied as the grader applies them, make of the old files the new ones?"""
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            if path in old:
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_bytes(old[path])
        for patch in patches:
            command = ["git", "apply", "--whitespace=nowarn", "-"]
            alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}  # the repository around is none of its
            done = subprocess.run(command, input=patch.encode(), cwd=folder, env=alone, capture_output=True, check=False, timeout=60)
            if done.returncode and patch:
                return False
        made = {path: Path(folder, path).read_bytes() for path in paths if Path(folder, path).is_file()}
    return made == {path: new[path] for path in paths if path in new}
