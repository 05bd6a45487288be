"""Data sets of others made a set of ours, and a set of ours made rows or folders: written whole or not at all.

A row that cannot be read, or a task that a format cannot hold, goes to `refuse`; where that goes on, the others are taken.

import_set("rows.jsonl", Path("set"))
export_set(Path("set"), Path("set.parquet"), "swebench")
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from patchgrad.errors import Refuse, TaskError, one_of_many, stop
from patchgrad.tasks import archive
from patchgrad.tasks.formats import FORMATS, Format, Row, detect, files, harbor, named, to_member, to_row
from patchgrad.tasks.formats.fields import ARCHIVES
from patchgrad.tasks.formats.rows import digested
from patchgrad.tasks.sets import Member, Origin, members, save
from patchgrad.values import Repository

HARBOR = "harbor"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Found:
    """A member, where it was read, and the file of its archive if it has one."""

    member: Member
    place: str
    archive: Path | None = None


def import_set(
    source: str,
    folder: Path,
    format: str = "",
    digests: Mapping[str, str] | None = None,
    split: str = "",
    refuse: Refuse = stop,
) -> list[Member]:
    """Add the tasks of a file, folder or data set to a set; those that were read, in the order of their ids.

    `format` is told from the columns unless it is named; `digests` gives the digests of images by name; `split` is the split of the tasks
    instead of what is known of them. Nothing is written before every row is read.
    """
    stored = []
    for one in collect(source, format, digests, split, refuse):
        with one_of_many(refuse):
            stored.append(_stored(one, folder))
    if not stored:
        return []
    count: dict[str, int] = {}
    for member in stored:
        kind = member.task.tags.get("source", "")
        count[kind] = count.get(kind, 0) + 1
    known = Path(source).resolve().name if Path(source).exists() else source
    address = f"sha256:{_sum(Path(source))}" if Path(source).is_file() else known
    name = re.sub(r"(\.(jsonl|json|parquet|gz|ndjson))+$", "", known)
    licences = sorted({member.task.tags["licence"] for member in stored if "licence" in member.task.tags})
    how = " ".join(("patchgrad tasks import", *(("--format", format) if format else ()), known))
    save(folder, stored, [Origin(kind, name, "", address, ", ".join(licences)[:200], how, n) for kind, n in sorted(count.items())])
    return sorted(stored, key=lambda member: member.task.id)


def collect(source: str, format: str = "", digests: Mapping[str, str] | None = None, split: str = "", refuse: Refuse = stop) -> list[Found]:
    """Everything that a source holds. A broken row goes to `refuse`, and so does a source without rows; an id of two rows gives no task."""
    found: dict[str, Found] = {}
    twice: set[str] = set()
    for place, take in _takes(source, format, digests, split, refuse):
        with one_of_many(refuse):
            one = _taken(place, take)
            name = one.member.task.id
            if name in found:
                twice.add(name)
                place = found[name].place
                raise TaskError(f"{one.place}: the id {name} stands for another task already ({place}): an id may stand for one only.")
            found[name] = one
    if not found:
        refuse(TaskError(f"{source} holds no rows."))
    return [one for name, one in found.items() if name not in twice]


def _takes(
    source: str, format: str, digests: Mapping[str, str] | None, split: str, refuse: Refuse
) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Each item of a source: where it stands, and what makes a member of it."""
    path = Path(source)
    if format == HARBOR or (not format and harbor.is_harbor(path)):
        if not harbor.is_harbor(path):
            raise TaskError(f"{source} is no folder of Harbor tasks: each has a task.toml and an instruction.md.")
        for task in harbor.load(path, refuse):
            yield task.name, partial(_of_folder, task, digests, split)
        return
    chosen = named(format) if format else None
    beside = path.parent if path.is_file() else path
    for place, columns in files.read(source, refuse):
        yield place, partial(_of_row, Row(columns, place), chosen, digests, split, beside)


def _taken(place: str, take: Callable[[], Found]) -> Found:
    try:
        found = take()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise TaskError(f"{place} is no task that can be read ({type(error).__name__}: {error}).") from error
    _check(found)
    return found


def _of_folder(task: harbor.HarborTask, digests: Mapping[str, str] | None, split: str) -> Found:
    return Found(digested(harbor.to_member(task, split), digests), task.name, task.archive)


def _of_row(row: Row, format: Format | None, digests: Mapping[str, str] | None, split: str, beside: Path) -> Found:
    member = to_member(format or detect(row), row, digests, split)
    repository = member.task.repository
    if repository.kind != "archive":
        return Found(member, row.place)
    if repository.location != f"{ARCHIVES}/{repository.digest}.tar":
        raise TaskError(f"{row.place}: its archive is at {repository.location}, not at {ARCHIVES}/ and its SHA-256: it is refused.")
    return Found(member, row.place, beside / repository.location)


def export_set(folder: Path, target: Path, format: str = "", refuse: Refuse = stop) -> int:
    """Write the tasks of a set as rows, in the form that the target's name ends in, or as Harbor folders; how many.

    Without a format each task takes that which it came in, and SWE-bench's where that is none. Archives are copied to `archives/` beside
    the rows, which name them. Nothing is written where no task can be.
    """
    found = members(folder, refuse)
    if format == HARBOR:
        return _export_folders(found, target, refuse)
    chosen = named(format) if format else None
    rows = []
    for member in found:
        with one_of_many(refuse):
            row = to_row(chosen or FORMATS.get(member.task.tags.get("source", ""), FORMATS["swebench"]), member)
            _copied(member.task.repository, target.parent / ARCHIVES, str(folder))
            rows.append(row)
    if rows or not found:
        files.write(rows, target)
    return len(rows)


def _copied(repository: Repository, beside: Path, place: str) -> None:
    """The archive lies in the folder `beside` the rows."""
    path, target = Path(repository.location), beside / f"{repository.digest}.tar"
    if repository.kind == "archive" and path.resolve() != target.resolve() and not target.exists():
        archive.write_whole(target, _bytes(path, repository.digest, place))


def read_digests(path: Path) -> dict[str, str]:
    """Digests of images by name, from a JSON object or from lines: `NAME sha256:...`, `NAME@sha256:...`, `NAME=sha256:...`."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read ({error}).") from error
    if text.lstrip().startswith("{"):
        try:
            pairs = list(json.loads(text).items())
        except ValueError as error:
            raise TaskError(f"{path} is no JSON ({error}).") from error
    else:
        pairs = [tuple(re.split(r"[\s@=]+(?=\S+$)", line.strip())) for line in text.splitlines() if line.strip()]
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[1], str) or not _DIGEST.fullmatch(pair[1]):
            raise TaskError(f"{path} gives {pair[0]!r} no digest: write sha256: and 64 digits of 0-9a-f behind the name.")
    return dict(pairs)


def _export_folders(found: list[Member], target: Path, refuse: Refuse) -> int:
    """Every folder, made beside and moved into place when all are whole; how many."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise TaskError(f"{target} is there already and not empty: name another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as place:
        whole = Path(place) / "tasks"
        whole.mkdir(mode=0o755)
        for member in found:
            with one_of_many(refuse):
                _export_folder(member, whole)
        made = len(list(whole.iterdir()))
        if made or not found:
            if target.exists():
                target.rmdir()
            shutil.move(whole, target)
    return made


def _export_folder(member: Member, whole: Path) -> None:
    task = harbor.to_folder(member)
    home = whole / task.name
    if home.exists():
        raise TaskError(f"Two tasks would have the folder {task.name}: give one of them another id.")
    contents = dict(task.files)
    if task.archive is not None:
        contents[harbor.ARCHIVE] = _bytes(task.archive, member.task.repository.digest, member.task.id)
    try:
        for path, content in contents.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(content)
            (home / path).chmod(0o755 if path in task.runnable else 0o644)
    except (OSError, ValueError) as error:  # of one name that no file can have; a full disk is one for all of them
        shutil.rmtree(home, ignore_errors=True)
        raise TaskError(f"Task {member.task.id} cannot be written as a folder ({error}): give it other names.") from error


def _check(one: Found) -> None:
    """Refuse files outside of the repository, and an archive that is missing or another one."""
    checks, digest = one.member.task.checks, one.member.task.repository.digest
    for path in (*(file.path for file in checks.files), *checks.protected):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise TaskError(f"{one.place}: it has a file at {path!r}, outside of the repository: it is refused.")
    if one.archive is not None and (not re.fullmatch(r"[0-9a-f]{64}", digest) or _sum(one.archive) != digest):
        raise TaskError(f"{one.place}: the archive {one.archive} is missing, or is another one than it promises: bring it along.")


def _stored(one: Found, folder: Path) -> Member:
    """The member with its archive in the set."""
    task = one.member.task
    if one.archive is None:
        return one.member
    target = folder / ARCHIVES / f"{task.repository.digest}.tar"
    if not target.exists():
        archive.write_whole(target, _bytes(one.archive, task.repository.digest, one.place))
    return replace(one.member, task=replace(task, repository=replace(task.repository, location=str(target))))


def _bytes(path: Path, digest: str, place: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{place}: the archive {path} cannot be read ({error.strerror}): make the set again.") from error
    if archive.digest(content) != digest:
        raise TaskError(f"{place}: the archive {path} has not the hash that its task promises: make the set again.")
    return content


def _sum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
