"""A set from several sources: each is worked on in the cache, where an interrupted call goes on; the set is written when all are done."""

from __future__ import annotations

import asyncio
import resource
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.tasks.forge import Forged, Order, Profile, forge
from patchgrad.tasks.history import Mined, Progress, Wish, mine, open_clone
from patchgrad.tasks.projects import Project, open_project
from patchgrad.tasks.running import LocalRunner
from patchgrad.tasks.sets import Member, Origin, save
from patchgrad.values import digest

_VERSION = "10"  # of what is kept in the cache: another one starts anew
_MOST_FILES = 5  # that a sentence names
Tell = Callable[[str, int, int, str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """What came of one source. `error` says why there is nothing; `reliable` counts its tests that can be relied on.

    `passed_over` are files that gave no tests or carry no bugs, and why.
    """

    source: str
    project: str = ""
    members: tuple[Member, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    reliable: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    cpu: float = 0.0
    error: str = ""
    passed_over: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> str:
        """The files that were passed over, in a sentence: ` Passed over: tests/test_a.py (KeyError: 'x').`"""
        told = [f"{path} ({why})" for path, why in list(self.passed_over.items())[:_MOST_FILES]]
        more = [f"{len(self.passed_over) - _MOST_FILES} more"] if len(self.passed_over) > _MOST_FILES else []
        return f" Passed over: {', '.join([*told, *more])}." if told else ""


def forge_set(
    sources: Sequence[str],
    out: Path,
    order: Order,
    cache: Path,
    how: str = "",
    tell: Tell | None = None,
    pins: Mapping[str, str] | None = None,
) -> list[Made]:
    """Adds tasks of each source to the set in `out`; what came of each.

    A source that is of no use is told in its `Made`, and the others go on; the set is not touched when there is no task at all, and
    `TaskError` says so. `tell` is called with a source, its tasks so far, its candidates so far and the last one's fate. `pins` are the
    SHA-256 of sources that must be those.
    """
    made = [_forge_one(source, order, cache, tell, (pins or {}).get(source, "")) for source in sources]
    found = [one for one in made if one[0].members]
    if not found:
        raise TaskError(
            " ".join(
                one.error or f"{one.source}: none of its {sum(one.rejected.values())} candidates is a task.{one.files}" for one, _ in made
            )
        )
    origins = [_origin(one, forged.project, forged.profile, order, how) for one, forged in found if forged is not None]
    save(out, [member for one, _ in found for member in _moved(one.members, out)], origins)
    return [one for one, _ in made]


def _forge_one(source: str, order: Order, cache: Path, tell: Tell | None, sha256: str) -> tuple[Made, Forged | None]:
    before, runners = cpu_seconds(), _Runners()
    try:
        project, files = open_project(source, cache, sha256)
        wanted = {name: value for name, value in asdict(order).items() if name not in ("count", "workers")}
        folder = cache / "forge" / f"{project.id}-{digest(_VERSION, project.address, repr(wanted))[:12]}"
        work = forge(project, files, order, runners, folder, (lambda *told: tell(source, *told)) if tell else None)
        forged: Forged = asyncio.run(work)
    except TaskError as error:
        return Made(source, error=str(error), cpu=cpu_seconds() - before), None
    finally:
        runners.close()
    known = forged.profile
    over = {**known.broken, **known.idle, **forged.barred}
    made = Made(
        source, project.id, forged.members, forged.rejected, len(known.tests), known.left_out, cpu_seconds() - before, passed_over=over
    )
    return made, forged


def mine_set(source: str, out: Path, wish: Wish, cache: Path, how: str = "", tell: Progress | None = None) -> tuple[Mined, float]:
    """Adds tasks of a repository's history to the set in `out`; what came of it, and the seconds of CPU.

    The set is not touched when there is no task at all, and `TaskError` says so. `tell` is called with the tasks so far, the commits so
    far and the last one's fate.
    """
    before, runners = cpu_seconds(), _Runners()
    try:
        clone = open_clone(source, cache)
        mined = asyncio.run(mine(clone, wish, runners, cache, tell))
    finally:
        runners.close()
    if not mined.members:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(mined.rejected.items(), key=lambda item: -item[1]))
        raise TaskError(f"{source}: none of its {sum(mined.rejected.values())} commits is a task ({reasons}).")
    packages = sorted({pin for member in mined.members for pin in member.task.packages})
    project, newest = mined.project, mined.newest
    origin = Origin(
        "git",
        project.name,
        newest[:10],
        newest,
        project.licence,
        how,
        len(mined.members),
        mined.rejected,
        packages,
        clone.location,
    )
    save(out, _moved(mined.members, out), [origin])
    return mined, cpu_seconds() - before


class _Runners:
    """One runner for each site, ended together."""

    def __init__(self) -> None:
        self._made: dict[Path, LocalRunner] = {}

    def __call__(self, site: Path) -> LocalRunner:
        if site not in self._made:
            self._made[site] = LocalRunner(site)
        return self._made[site]

    def close(self) -> None:
        for runner in self._made.values():
            runner.close()


def _moved(found: Sequence[Member], out: Path) -> list[Member]:
    """The members with their archives in the set's own folder."""
    moved = []
    for member in found:
        old = Path(member.task.repository.location)
        new = out / "archives" / old.name
        if not new.exists():
            new.parent.mkdir(parents=True, exist_ok=True)
            partial = new.with_name(f".{new.name}.part")
            shutil.copyfile(old, partial)
            partial.rename(new)
        moved.append(replace(member, task=replace(member.task, repository=replace(member.task.repository, location=str(new)))))
    return moved


def _origin(made: Made, project: Project, known: Profile, order: Order, how: str) -> Origin:
    return Origin(
        project.kind,
        project.name,
        project.version,
        project.address,
        project.licence,
        how,
        len(made.members),
        made.rejected,
        project.packages,
        project.location,
        project.plugins,
        tuple(known.broken),
        order.quiet,
    )


def cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
