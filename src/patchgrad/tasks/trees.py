"""The files that an agent finds: a task's archive with its repository's patch laid over it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import open_archive
from patchgrad.values import Repository

SHORTEST = 40  # characters of code that are no coincidence
_NAMES = re.compile(r"^--- ([^\t\n]+).*\n\+\+\+ ([^\t\n]+)", re.MULTILINE)


def first_state(repository: Repository) -> dict[str, bytes]:
    """The files of an archive after its patch; `TaskError` when it does not fit, or for a repository that is no archive."""
    if repository.kind != "archive":
        raise TaskError(f"The files of {repository.location} are in an image or a history, and cannot be read here.")
    files = open_archive(repository)
    return patched(files, repository.patch) if repository.patch.strip() else files


def touched(patch: str) -> list[str]:
    """The files that a patch in git's format names, each once: `--- a/box.py`, `+++ b/box.py` -> `["box.py"]`."""
    names = (name for found in _NAMES.finditer(patch) for name in found.groups())
    return list(dict.fromkeys(name.partition("/")[2] for name in names if name != "/dev/null"))


def patched(files: Mapping[str, bytes], patch: str) -> dict[str, bytes]:
    """The files with the patch applied by git; `TaskError` when it does not fit."""
    names = touched(patch)
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), {name: files[name] for name in names if name in files})
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}  # a repository around is none of its
        done = subprocess.run(command, input=patch.encode(), cwd=folder, env=alone, capture_output=True, check=False)
        if done.returncode:
            raise TaskError(f"A patch does not fit its repository: {done.stderr.decode(errors='replace').strip()[-300:]}")
        after = {name: (Path(folder) / name).read_bytes() for name in names if (Path(folder) / name).is_file()}
    return {name: content for name, content in files.items() if name not in names} | after


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def python(files: Iterable[str]) -> list[str]:
    """The Python files among these."""
    return [name for name in files if name.endswith(".py")]


def blocks(repair: str, after: Mapping[str, bytes]) -> list[str]:
    """Three lines around each line that the solution adds, with single spaces: what would give it away anywhere else."""
    added = {line[1:].strip() for line in repair.splitlines() if line.startswith("+") and not line.startswith("+++")}
    found = []
    for name in touched(repair):
        lines = [" ".join(line.split()) for line in after.get(name, b"").decode(errors="replace").splitlines()]
        for number, line in enumerate(lines):
            block = " ".join(lines[max(0, number - 1) : number + 2]).strip()
            if line and line in added and len(block) >= SHORTEST:
                found.append(block)
    return found


def copies(repair: str, after: Mapping[str, bytes], files: Mapping[str, bytes], sources: Sequence[str]) -> list[str]:
    """Files of a tree, other than the `sources` that the repair changes, that hold the repaired code as well."""
    wanted = blocks(repair, after)
    others = {name: content for name, content in files.items() if name not in sources} if wanted else {}
    flat = {name: " ".join(content.decode(errors="replace").split()) for name, content in others.items()}
    return [name for name, text in flat.items() if any(block in text for block in wanted)]
