"""What a sandbox starts from: a task's archive as bytes, if it is what the task says, and the commands that make it the task's."""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.values import Task, digest

_NAMES = re.compile(r"^(?:---|\+\+\+) [ab]/([^\t\n]+)|^rename (?:from|to) (.+)$", re.MULTILINE)
_PIECE = 60_000  # bytes: a single argument of a command has to stay below 128 KiB
_PATCH = "/tmp/.repository.patch"
_END = "END_OF_THE_PATCH"


def archive(task: Task) -> bytes:
    """The content of the file with the repository's patch in it, as if it had been packed so: no file is newer than another.

    `TaskError` where it cannot be read or has another SHA-256, or the patch does not fit.
    """
    repository = task.repository
    try:
        content = Path(repository.location).read_bytes()
    except OSError as error:
        raise TaskError(f"task {task.id!r}: the archive {repository.location} cannot be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != repository.digest:
        raise TaskError(f"task {task.id!r}: the archive {repository.location} has SHA-256 {found}, not {repository.digest}")
    return _patched(task, content) if repository.patch.strip() else content


def _patched(task: Task, content: bytes) -> bytes:
    """The tar again, with what the patch makes of its files in their places."""
    patch = task.repository.patch
    names = {name for found in _NAMES.finditer(patch) for name in found.groups() if name}
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar, tempfile.TemporaryDirectory() as folder:
            members = [(member, tar.extractfile(member).read() if member.isreg() else b"") for member in tar]  # type: ignore[union-attr]
            _lay_out(Path(folder), {_plain(member): data for member, data in members if member.isreg() and _plain(member) in names})
            alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}  # a repository around is none of its
            command = ["git", "apply", "--whitespace=nowarn", "-"]
            done = subprocess.run(command, input=patch.encode(), cwd=folder, env=alone, capture_output=True, check=False, timeout=60)
            if done.returncode:
                told = done.stderr.decode(errors="replace").strip()[-300:]
                raise TaskError(f"task {task.id!r}: the patch of its repository does not fit: {told}")
            after = {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TaskError(f"task {task.id!r}: the archive {task.repository.location} is no sound tar ({error})") from error
    return _packed(members, names, after)


def _plain(member: tarfile.TarInfo) -> str:
    return posixpath.normpath(member.name)


def _lay_out(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        if name.startswith(("/", "../")):
            continue  # which unpacking refuses by name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _packed(members: Sequence[tuple[tarfile.TarInfo, bytes]], names: Collection[str], after: Mapping[str, bytes]) -> bytes:
    buffer, known = io.BytesIO(), {_plain(member) for member, _ in members}
    kept = [
        (m, after.get(_plain(m), data) if _plain(m) in names else data)
        for m, data in members
        if _plain(m) not in names or _plain(m) in after
    ]
    for name in sorted(after.keys() - known):
        kept.append((tarfile.TarInfo(name), after[name]))
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in kept:
            member.size = len(data) if member.isreg() else member.size
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return buffer.getvalue()


def preparation(task: Task) -> tuple[str, ...]:
    """The commands between unpacking and the first commit: an image's own patch, then the task's set-up."""
    patch = task.repository.patch
    if task.repository.kind == "archive" or not patch.strip():  # what is laid over an archive comes with it
        return task.setup
    if _END in patch:
        raise TaskError(f"task {task.id!r}: the patch of its repository holds {_END!r}, which ends it in the shell: take that word out")
    written = [f"cat >> {_PATCH} <<'{_END}'\n{piece}{_END}" for piece in _pieces(patch if patch.endswith("\n") else f"{patch}\n")]
    return (*written, f"git apply --whitespace=nowarn {_PATCH} && rm {_PATCH}", *task.setup)


def root_key(task: Task) -> str:
    """Which first state a task has: tasks of one key share it."""
    return digest(task.repository.digest, task.repository.patch, *task.packages, "", *task.setup)


def undigested(task: Task) -> str:
    """What to say of a task whose image has a name and no digest: a name stands for another image tomorrow."""
    if "harbor.built" in task.tags:
        name = task.repository.location
        return (
            f"task {task.id!r} is made by its Dockerfile, and images are not built here: build it once (docker build -t {name} "
            f"FOLDER/environment), and import it again with --digests FILE, where a line says {name} and the image's digest or id"
        )
    return f"task {task.id!r} names the image {task.repository.location} without a digest: import it again with --digests FILE"


def _pieces(text: str) -> list[str]:
    pieces = [""]
    for line in re.findall(r"[^\n]*\n", text):
        if pieces[-1] and len((pieces[-1] + line).encode()) > _PIECE:
            pieces.append("")
        pieces[-1] += line
    return pieces
