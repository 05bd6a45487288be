"""A set without its sources, to be kept and published, and the set made of it again, bit for bit.

    freeze(Path("sets/mine"), Path("recipes/mine"))      manifest.json and tasks.jsonl.xz: patches, statements, tests, hashes
    rebuild(Path("recipes/mine"), Path("sets/again"), cache())

The archives are made anew from the distributions and repositories that the manifest names. Their hashes, and those of the set's own files,
must be the ones that were written down.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import pack, store, write_whole
from patchgrad.tasks.history import archive_of, open_clone
from patchgrad.tasks.projects import open_project
from patchgrad.tasks.projects.furnish import prepare
from patchgrad.tasks.sets import MANIFEST, TASKS, Origin, manifest, members, read_origins

FROZEN = f"{TASKS}.xz"


def freeze(folder: Path, out: Path) -> int:
    """Writes a set's manifest and rows to `out`, without archives; how many tasks. `TaskError` for one that has no manifest."""
    found = members(folder)
    if not (folder / MANIFEST).exists():
        raise TaskError(f"{folder} has no {MANIFEST}: make the set again with this version.")
    write_whole(out / FROZEN, lzma.compress((folder / TASKS).read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    write_whole(out / MANIFEST, (folder / MANIFEST).read_bytes())
    return len(found)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many tasks a set has again, and of each source that was left out why it was."""

    tasks: int
    left_out: Mapping[str, str]


def rebuild(
    frozen: Path,
    out: Path,
    cache: Path,
    clones: Mapping[str, Path] | None = None,
    tell: Callable[[str], None] | None = None,
    partly: bool = False,
) -> Rebuilt:
    """Makes the set again in `out`, which must not be there.

    `clones` names where repositories lie that cannot be fetched. `TaskError` when something is not to be had, or is not what it was;
    nothing is left in `out` then. Where `partly` is enough, the tasks of such a source are left out, and the others are as they were.
    """
    if out.exists():
        raise TaskError(f"{out} is there already: name a folder that is not.")
    text = _frozen(frozen)
    rows = [json.loads(line) for line in text.decode().split("\n") if line]
    work = out.with_name(f".{out.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    left_out: dict[str, str] = {}
    try:
        made, had = set[str](), list[Origin]()
        for origin in read_origins(frozen):
            try:
                made.update(store(work / "archives", data).digest for data in _archives(origin, rows, cache, clones or {}))
                had.append(origin)
            except TaskError as error:
                if not partly:
                    raise
                left_out[origin.name] = str(error)
            if tell:
                tell(f"{origin.name} {origin.version}")
        for row in rows:
            if partly and _needed(row) - made:
                left_out.setdefault(row["tags"].get("package", row["id"]), "its sources have changed")
        if not left_out:
            write_whole(work / MANIFEST, (frozen / MANIFEST).read_bytes())
        count = _write(work, text, made, had, left_out)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return Rebuilt(count, left_out)


def _write(work: Path, text: bytes, made: set[str], had: Sequence[Origin], left_out: Mapping[str, str]) -> int:
    """The rows of a set whose archives lie in `work`, and its manifest where sources are left out; how many tasks."""
    lines = text.splitlines(keepends=True)
    needed = [_needed(json.loads(line)) for line in lines]
    missing = sorted(set().union(*needed) - made)
    if missing and not left_out:
        raise TaskError(f"{len(missing)} archives of the set could not be made again, as {missing[0][:16]}: its sources have changed.")
    kept = [line for line, digests in zip(lines, needed, strict=True) if digests <= made]
    if not kept:
        raise TaskError(f"No task could be made again: {next(iter(left_out.values()))}")
    for name in made - set().union(*needed):
        (work / "archives" / f"{name}.tar").unlink()
    write_whole(work / TASKS, b"".join(kept))
    if left_out:
        write_whole(work / MANIFEST, manifest(members(work), b"".join(kept), had).encode())
    return len(kept)


def _needed(row: Mapping[str, Any]) -> set[str]:
    """The archive that a task is made in, if it is made in one."""
    repository = row["repository"]
    return {repository["digest"]} if repository["kind"] == "archive" else set()


def _frozen(folder: Path) -> bytes:
    """The rows."""
    try:
        told = json.loads((folder / MANIFEST).read_bytes())
        text = lzma.decompress((folder / FROZEN).read_bytes())
    except (OSError, ValueError, lzma.LZMAError) as error:
        raise TaskError(f"{folder} is no set that was frozen ({error}): name a folder with {MANIFEST} and {FROZEN}.") from error
    if hashlib.sha256(text).hexdigest() != told["sha256"][TASKS]:
        raise TaskError(f"{folder / FROZEN} is not what {MANIFEST} says: fetch both again.")
    return text


def _archives(origin: Origin, rows: Sequence[Mapping[str, Any]], cache: Path, clones: Mapping[str, Path]) -> Iterator[bytes]:
    """The archives of one origin: one for a package, a folder or a commit, and one for each commit of a history."""
    source = str(clones.get(origin.name, origin.location))
    mined = [row["tags"] for row in rows if row["tags"].get("source") == "history" and row["tags"].get("package") == origin.name]
    if mined and " mine " in origin.how:
        clone = open_clone(source, cache)
        yield from (archive_of(clone, tags["commit"], tags["plugins"].split()) for tags in mined)
        return
    sha256 = ""
    if origin.kind == "sdist":
        source, sha256 = f"{origin.name}=={origin.version}", origin.address
    project, files = open_project(source, cache, sha256)
    if project.address != origin.address:
        raise TaskError(
            f"{source} is not {origin.name} {origin.version} any more: it is at {project.address[:12]}, not {origin.address[:12]}."
        )
    tree = prepare(replace(project, plugins=tuple(origin.plugins)), files, origin.quiet)
    yield pack({path: content for path, content in tree.items() if path not in origin.left_out})
