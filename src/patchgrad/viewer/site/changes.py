"""What a turn did to the files, as diffs: from the states that a run keeps of each turn, and the code that its task began with."""

from __future__ import annotations

import difflib
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.store import Run
from patchgrad.values import Entries, Repository, Turn

LARGE = 200_000
"""Bytes of a file beyond which its lines are not compared."""

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")

Base = Callable[[str], bytes | None]
"""The content of a file before the first turn; None where there was none, and `StoreError` where nobody knows."""


def changes(run: Run, repository: Repository, turns: tuple[Turn, ...], since: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Of each turn from this place on the files that it changed, `{"path": "a.py", "diff": "..."}`; nothing where a state is not kept."""
    base, before, last = _base(run, repository), _Files({}), ""
    if since:
        last = turns[since - 1].state
        before = _left(run, last, before)
    for turn in turns[since:]:
        if turn.state == last:
            yield []
            continue
        after = _left(run, turn.state, before)
        yield [_change(path, before, after, base) for path in after.other(before)]
        before, last = after, turn.state


def _left(run: Run, state: str, before: _Files) -> _Files:
    """The files of a state; those before where it is not kept."""
    try:
        return _Files(run.journal.states.get(state).entries)
    except StoreError:
        return before


class _Files:
    """The files that differ from the repository, by path."""

    def __init__(self, entries: Entries) -> None:
        self.entries: Mapping[str, tuple[int, bytes | None]] = entries

    def other(self, than: _Files) -> list[str]:
        """Paths at which these are others."""
        return sorted(path for path in {*self.entries, *than.entries} if self.entries.get(path) != than.entries.get(path))

    def content(self, path: str, base: Base) -> bytes | None:
        return self.entries[path][1] if path in self.entries else base(path)


def _change(path: str, before: _Files, after: _Files, base: Base) -> dict[str, Any]:
    try:
        old, new = before.content(path, base), after.content(path, base)
    except StoreError as error:
        now = after.entries.get(path, (0, b""))[1]
        return {"path": path, "diff": "", "why": str(error), "now": _text(now or b"")[:LARGE]}
    if old == new:
        return {"path": path, "diff": "", "why": "the mode of the file alone"}
    if max(len(old or b""), len(new or b"")) > LARGE or b"\0" in (old or b"") + (new or b""):
        return {"path": path, "diff": "", "why": f"binary or large: {len(old or b''):,} bytes before, {len(new or b''):,} after"}
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    lines = difflib.unified_diff(_text(old or b"").splitlines(True), _text(new or b"").splitlines(True), *names)
    return {"path": path, "diff": "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)}


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _base(run: Run, repository: Repository) -> Base:
    """Files of the archive that a task began with, its planted bug laid over them; of an image or a git repository nobody knows here."""
    there = [Path(repository.location), *(run.folder / "archives").glob(f"{repository.digest}.*")]
    archive = next((path for path in there if path.is_file()), None)

    def content(path: str) -> bytes | None:
        if repository.kind != "archive" or archive is None:
            raise StoreError("the code that the task began with is not here")
        return _patched(_member(archive, path), repository.patch, path)

    return content


@lru_cache(maxsize=256)
def _member(archive: Path, path: str) -> bytes | None:
    try:
        with tarfile.open(archive) as packed:
            for name in (path, f"./{path}"):
                try:
                    found = packed.extractfile(name)
                except KeyError:
                    continue
                return found.read() if found is not None else None
    except (OSError, tarfile.TarError) as error:
        raise StoreError(f"the code that the task began with cannot be read: {error}") from error
    return None


def _patched(content: bytes | None, patch: str, path: str) -> bytes | None:
    """The file after the part of a patch that is about it; `StoreError` where that does not fit."""
    part = next((one for one in re.split(r"(?m)^(?=--- )", patch) if f"\n+++ b/{path}" in one.partition("\n@@")[0] + "\n"), "")
    if not part or content is None:
        return content
    lines, done = content.decode(errors="surrogateescape").splitlines(True), list[str]()
    place, wanted = 0, part.splitlines(True)
    for number, line in enumerate(wanted):
        if found := HUNK.match(line):
            start = int(found[1]) - (found[2] != "0")
            done += lines[place:start]
            place = start
        elif number > 1 and line[:1] in (" ", "-"):
            if place >= len(lines) or lines[place].rstrip("\r\n") != line[1:].rstrip("\r\n"):
                raise StoreError("the bug that was planted does not fit the code that the task began with")
            done += lines[place : place + 1] if line[0] == " " else []
            place += 1
        elif number > 1 and line[:1] == "+":
            done.append(line[1:])
        elif line.startswith("\\ No newline") and wanted[number - 1][:1] == "+":
            done[-1] = done[-1].removesuffix("\n")
    return "".join(done + lines[place:]).encode(errors="surrogateescape")
