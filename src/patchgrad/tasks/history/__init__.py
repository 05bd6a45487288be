"""Tasks from a repository's own history: commits that repaired something and brought the tests that show it.

    commits, newest first -> split (repair, tests) -> environment of their time -> before and after, several times -> statement -> task

The agent gets the parent commit's files, without history and without the new tests. As everywhere the project's grader decides
whether a task holds where agents work. The fate of every commit is written down when it is known, so that a killed run goes on where it
was, and every commit that became no task is counted under its reason.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import pack
from patchgrad.tasks.evaluation_sets import repository_of
from patchgrad.tasks.history.clone import Clone, Commit, open_clone
from patchgrad.tasks.history.emit import emit
from patchgrad.tasks.history.environments import Environments
from patchgrad.tasks.history.split import loaded, split
from patchgrad.tasks.history.trial import attempt
from patchgrad.tasks.ordered import in_order
from patchgrad.tasks.projects.catalogue import split_of
from patchgrad.tasks.projects.project import Project
from patchgrad.tasks.projects.source import Found, project_of
from patchgrad.tasks.running import Runner
from patchgrad.tasks.sets import TASKS, Member, append, members, row_of, rows
from patchgrad.values import digest

__all__ = ["Clone", "Mined", "Wish", "archive_of", "mine", "open_clone"]

LEDGER = "ledger.jsonl"
Progress = Callable[[int, int, str], None]
_VERSION = "3"  # of what is kept in the cache: another one starts anew


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of a history: how many tasks, of which days (both included), and how many runs each must hold in.

    `evaluation` marks the tasks as such, which is the only way to have some of a repository that models are measured on.
    """

    count: int = 20
    since: str = ""
    until: str = ""
    runs: int = 3
    evaluation: bool = False
    workers: int = 2


@dataclass(frozen=True, slots=True)
class Mined:
    """What became of a history: its tasks, how many commits fell for which reason, and the newest commit that was looked at."""

    project: Project
    newest: str
    members: tuple[Member, ...]
    rejected: Mapping[str, int]


async def mine(clone: Clone, wish: Wish, runner: Callable[[Path], Runner], cache: Path, progress: Progress | None = None) -> Mined:
    """Makes tasks below `cache`, whose files let an interrupted call go on; `runner` gives what runs tests with the packages of a site.

    The same arguments give the same tasks, whether the work was interrupted or not. The progress is called with the tasks so far, the
    commits so far and the last one's fate. `TaskError` for a repository without commits or tests, or one that is not to be trained on.
    """
    project = _newest(clone, wish)
    commits = clone.commits(wish.since, wish.until)
    if not commits:
        raise TaskError(
            f"{project.name} has no commits between {wish.since or 'its first'} and {wish.until or 'its last'}: name other days."
        )
    folder = cache / "mine" / f"{project.name}-{digest(_VERSION, str(wish.runs), *map(str, sys.version_info[:2]))[:8]}"
    bench = _Bench(clone, project.name, wish, Environments(runner, cache / "mine" / f"environments-{_VERSION}"), folder)
    waiting = iter(commits)
    async for commit, fate in in_order(lambda: bench.next(waiting), bench.fate, wish.workers):
        word = bench.took(commit, fate)
        if word and progress:
            progress(len(bench.made), len(bench.made) + bench.rejected.total(), word)
    split_name = "evaluation" if wish.evaluation else split_of(project.name)
    made = [replace(m, task=replace(m.task, tags={**m.task.tags, "split": split_name})) for m in bench.made]
    return Mined(project, commits[0].sha, tuple(made), dict(sorted(bench.rejected.items())))


def archive_of(clone: Clone, sha: str, plugins: Sequence[str]) -> bytes:
    """The archive of the task that a commit became, made again; `TaskError` where the commit is not there or is no task any more."""
    commit = next((one for one in clone.commits("", "") if one.sha == sha), None)
    found = split(clone, commit) if commit is not None else "it is not there"
    if isinstance(found, str):
        raise TaskError(f"The commit {sha[:12]} of {clone.location or clone.name} is no task any more: {found}.")
    return pack(loaded(found, tuple(plugins)).tree)


def _newest(clone: Clone, wish: Wish) -> Project:
    """The project as it is at HEAD."""
    known = repository_of(clone.location)
    try:
        project, _ = project_of(Found("git", clone.head, clone.name, clone.head[:10], clone.location, clone.files(clone.head)))
    except TaskError as error:
        if not known:
            raise TaskError(f"{clone.location or clone.name}: {error}") from error
        project = None
    known = known or repository_of(project.name if project else "")
    if known and not wish.evaluation:
        raise TaskError(
            f"{known} is one of the repositories that SWE-bench measures models on, so it must not be trained on: take another one, or say"
            " --evaluation to make tasks that are marked as such."
        )
    if project is None:
        raise TaskError(f"{known}: it has no tests or no Python modules at its HEAD.")
    return project


class _Bench:
    """Commits on their way, and what has become of those before them."""

    def __init__(self, clone: Clone, name: str, wish: Wish, environments: Environments, folder: Path) -> None:
        self._clone, self._name, self._wish, self._environments, self._folder = clone, name, wish, environments, folder
        self._fates = {row["commit"]: row["fate"] for row in rows(folder / LEDGER)}
        known = members(folder) if (folder / TASKS).exists() else []
        self._known = {member.task.tags["commit"]: member for member in known}
        self.made: list[Member] = []
        self.rejected: Counter[str] = Counter()

    def next(self, waiting: Iterator[Commit]) -> Commit | None:
        """The commit to look at next, while there are too few tasks."""
        return next(waiting, None) if len(self.made) < self._wish.count else None

    def took(self, commit: Commit, fate: Member | str) -> str:
        """Writes down what became of a commit, in a word; nothing when those before it were enough."""
        if len(self.made) >= self._wish.count:
            return ""
        if isinstance(fate, Member):
            if commit.sha not in self._known:
                append(self._folder / TASKS, row_of(fate, self._folder))
            self.made.append(fate)
            return "task"
        self.rejected[fate] += 1
        if commit.sha not in self._fates:
            append(self._folder / LEDGER, {"commit": commit.sha, "fate": fate})
        return fate

    async def fate(self, commit: Commit) -> Member | str:
        """The task that a commit is, or why it is none."""
        if commit.sha in self._known:
            return self._known[commit.sha]
        if commit.sha in self._fates:
            return str(self._fates[commit.sha])
        found = split(self._clone, commit)
        if isinstance(found, str):
            return found
        found = replace(found, project=replace(found.project, name=self._name))
        environment, run = await self._environments.of(found)
        if run is None:
            return environment.reason
        found = loaded(found, environment.plugins)
        fix = await attempt(found, run, self._wish.runs)
        if isinstance(fix, str):
            return fix
        said = found.project.version.partition("+")[0]
        version = said if said != commit.sha[:10] else self._clone.tag(commit.sha) or said
        return emit(found, fix, version, environment.versions, environment.packages, self._folder / "archives")
