"""What the tests of a commit need, in the versions of its time, found once for all commits of a month that state and import the same.

Old code runs here on the Python of today. Where versions of its time cannot be installed on that, or fewer tests pass with them, those
of today are taken, and the task says so. A package may stand for one that is gone (`pynose` for `nose`); the code itself is never
changed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.packages.sites import ensure_site
from patchgrad.tasks.archive import write_whole
from patchgrad.tasks.history.split import Split
from patchgrad.tasks.projects.furnish import Endless, furnish
from patchgrad.tasks.projects.project import Project
from patchgrad.tasks.running import Runner
from patchgrad.values import digest

_OURS = {"pytest", "_pytest", "hypothesis", "pluggy", "packaging", "iniconfig", "sortedcontainers"}


@dataclass(frozen=True, slots=True)
class Environment:
    """Pins, whether they are `of the month`, `of today` or `none`, and the reason where there is no environment.

    `plugins` are modules of these that pytest loads.
    """

    packages: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    versions: str = "none"
    reason: str = ""
    passed: int = 0


class Environments:
    """Those that were found, kept in a folder; `runner` gives what runs tests with the packages of a site."""

    def __init__(self, runner: Callable[[Path], Runner], folder: Path) -> None:
        self._runner, self._folder = runner, folder
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, found: Split) -> tuple[Environment, Runner | None]:
        """The environment of a commit, and what runs its tests; no runner where there is a reason."""
        needs = (*found.project.requires, *sorted(foreign(found.after)))
        made = await self._kept(found, month(found.commit.when) if needs else "")
        if made.packages and not needs:  # its tests asked for a package by other means than an import
            made = await self._kept(found, month(found.commit.when))
        return made, None if made.reason else self._runner(ensure_site(made.packages))

    async def _kept(self, found: Split, before: str) -> Environment:
        project = found.project
        told = (project.name, *project.requires, "", *project.extras, "", *sorted(foreign(found.after)), "", *project.tests)
        key = digest(before, sys.version.split()[0], *told)[:20]
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = self._folder / f"{key}.json"
            if kept.exists():
                return _read(kept.read_bytes())
            made = await self._found(project, found.after, before)
            write_whole(kept, json.dumps(asdict(made)).encode())
            return made

    async def _found(self, project: Project, files: Mapping[str, bytes], before: str) -> Environment:
        dated = await self._tried(project, files, before)
        if not before or (dated.passed and not dated.reason):
            return dated
        today = await self._tried(project, files, "")
        return today if today.passed > dated.passed else dated

    async def _tried(self, project: Project, files: Mapping[str, bytes], before: str) -> Environment:
        try:
            made = await furnish(project, files, self._runner, before=before)
        except Endless:
            return Environment(reason="suite does not end")
        except TaskError:
            return Environment(reason="its packages cannot be had")
        packages = made.project.packages
        passed = sum(outcome == "passed" for outcome in made.first.outcomes.values())
        versions = "none" if not packages else "of the month" if before else "of today"
        return Environment(packages, made.project.plugins, versions, "" if passed else "no test passes here", passed)


def month(when: datetime | None) -> str:
    """The first day after the month of a date: what was uploaded until then is of its time. `2024-12-05` -> `2025-01-01`, none -> `""`."""
    return "" if when is None else (when.replace(day=1) + timedelta(days=32)).strftime("%Y-%m-01")


def foreign(files: Mapping[str, bytes]) -> set[str]:
    """Modules that the files import and that are neither theirs nor Python's own: `{"a.py": b"import six, os"}` -> `{"six"}`."""
    own = {part.removesuffix(".py") for path in files for part in path.split("/")}
    found: set[str] = set()
    for path, content in files.items():
        if path.endswith(".py") and path not in ("setup.py", "docs/conf.py"):
            text = content.decode(errors="replace")
            for line in re.findall(r"^[ \t]*import[ \t]+([\w., \t]+)", text, re.MULTILINE):
                found |= {part.split()[0].split(".")[0] for part in line.split(",") if part.split()}
            found |= set(re.findall(r"^[ \t]*from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b", text, re.MULTILINE))
    return found - own - _OURS - sys.stdlib_module_names - {"__builtin__", "StringIO", "cStringIO"}


def _read(data: bytes) -> Environment:
    row = json.loads(data)
    return Environment(tuple(row["packages"]), tuple(row["plugins"]), row["versions"], row["reason"], row["passed"])
