"""Source distributions from the package index that pip is configured to use, kept by their hash."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.packages.sites import distribution

_SECONDS = 600


def source_distribution(requirement: str, cache: Path, sha256: str = "") -> tuple[str, bytes]:
    """(file name, content) of a distribution's source: `source_distribution("toolz==1.0.0", cache())` -> `("toolz-1.0.0.tar.gz", b"...")`.

    With a `sha256` the file is taken from the cache where it lies there. `TaskError` when the index has none, or has another one.
    """
    kept = sorted((cache / "sdists" / sha256).iterdir()) if sha256 and (cache / "sdists" / sha256).is_dir() else []
    if kept:
        name, data = kept[0].name, kept[0].read_bytes()
    else:
        name, data = _download(requirement)
    found = hashlib.sha256(data).hexdigest()
    if sha256 and found != sha256:
        where = f"in {kept[0]}" if kept else "of your package index"
        raise TaskError(f"The source of {requirement} {where} is not the pinned one: its SHA-256 is {found}, not {sha256}.")
    target = cache / "sdists" / found / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return name, data


def _download(requirement: str) -> tuple[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        command += ["--no-binary", distribution(requirement), requirement]  # of this one alone: what builds it may come ready-made
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            said = done.stderr
        except subprocess.TimeoutExpired:
            said = f"no answer within {_SECONDS // 60} minutes"
        found = list(Path(folder).iterdir())
        if len(found) != 1:
            raise TaskError(f"The source of {requirement} could not be fetched: {_reason(said)}")
        return found[0].name, found[0].read_bytes()


def _reason(said: str) -> str:
    if re.search(r"metadata-generation-failed|subprocess-exited-with-error|Failed to build", said):
        return "its own build does not run here, as with packages that need a compiler; only pure Python can be used."
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("WARNING")]
    told = next((line for line in lines if re.match("ERROR: (No matching|Could not find)", line)), "".join(lines[-1:]))
    return told.removeprefix("ERROR: ") or "pip gave no reason."
