"""Distributions from the package index that pip is configured to use, as files that are kept by their hash and not installed."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.packages.sites import distribution

_SECONDS = 600


def source_distribution(requirement: str, cache: Path, sha256: str = "") -> tuple[str, bytes]:
    """(file name, content) of a distribution's source: `source_distribution("toolz==1.0.0", cache())` -> `("toolz-1.0.0.tar.gz", b"...")`.

    With a `sha256` the file is taken from the cache where it lies there. `TaskError` when the index has none, or has another one.
    """
    source_alone = ["--no-binary", distribution(requirement)]  # of this one alone: what builds it may come ready-made
    path = _kept(requirement, cache / "sdists", sha256, source_alone, "source")
    return path.name, path.read_bytes()


def wheel(requirement: str, cache: Path, sha256: str) -> Path:
    """Where a wheel lies that is taken as a file: neither it nor what it needs is installed. `TaskError` as above."""
    return _kept(requirement, cache / "wheels", sha256, ["--only-binary", ":all:"], "wheel")


def _kept(requirement: str, store: Path, sha256: str, options: Sequence[str], kind: str) -> Path:
    """The file of this hash in the store, put there if it is not."""
    there = sorted((store / sha256).iterdir()) if sha256 and (store / sha256).is_dir() else []
    if there:
        _agrees(there[0], sha256, f"{kind} of {requirement} in {there[0]}")
        return there[0]
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store, prefix=".") as folder:
        path = _download(requirement, Path(folder), options, kind)
        found = _agrees(path, sha256, f"{kind} of {requirement} of your package index")
        target = store / found / path.name
        target.parent.mkdir(exist_ok=True)
        return path.rename(target)


def _agrees(path: Path, sha256: str, what: str) -> str:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 and found != sha256:
        raise TaskError(f"The {what} is not the pinned one: its SHA-256 is {found}, not {sha256}.")
    return found


def _download(requirement: str, folder: Path, options: Sequence[str], kind: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *options, requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        said = done.stderr
    except subprocess.TimeoutExpired:
        said = f"no answer within {_SECONDS // 60} minutes"
    found = list(folder.iterdir())
    if len(found) != 1:
        raise TaskError(f"The {kind} of {requirement} could not be fetched: {_reason(said)}")
    return found[0]


def _reason(said: str) -> str:
    if re.search(r"metadata-generation-failed|subprocess-exited-with-error|Failed to build", said):
        return "its own build does not run here, as with packages that need a compiler; only pure Python can be used."
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("WARNING")]
    told = next((line for line in lines if re.match("ERROR: (No matching|Could not find)", line)), "".join(lines[-1:]))
    return told.removeprefix("ERROR: ") or "pip gave no reason."
