"""What a folder says of itself in `run.json`: that it is a run, of which format, and what made it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from patchgrad import __version__
from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.lock import WriterLock

FORMAT = 4
READABLE = (3, FORMAT)
"""Runs of format 3 have other names in their metrics and in their recipe (`store/format3.py`, `recipes/moved.py`); all of it is read."""


def new_about() -> dict[str, Any]:
    """Of a run that begins now."""
    return {"program": "patchgrad", "format": FORMAT, "version": __version__, "created": datetime.now(UTC).isoformat()}


class About:
    """Which version of patchgrad made the folder and when, in which sandboxes, and with what code of the user's."""

    def __init__(self, folder: Path, lock: WriterLock) -> None:
        self._folder, self._lock = folder, lock

    def read(self) -> dict[str, Any]:
        """All of it."""
        return dict(files.loads(self._folder / "run.json"))

    def write_sandbox(self, backend: str, lacks: Sequence[str], programs: Mapping[str, str]) -> None:
        """In what the attempts ran, what that does not enforce on this host, which stands in every report, and of which `programs`."""
        self._add("sandbox", {"backend": backend, "lacks": list(lacks), "programs": dict(programs)})

    def write_code(self, code: Mapping[str, Mapping[str, str]]) -> None:
        """What code of the user's the run is made with: a name, a digest and a file for each part, which a resume compares."""
        self._add("code", code)

    def write_rounding(self, quick: bool) -> None:
        """Whether the processor on which the run began is faster at products in `bfloat16`, so that one that goes on rounds alike."""
        self._add("rounding", quick)

    def write_import(self, files: Sequence[str]) -> None:
        """The folder holds attempts that others made: those of these `files`."""
        self._add("imported", {"files": list(files)})

    @property
    def imported(self) -> bool:
        """Does the folder hold attempts that others made, with an agent that is not here?"""
        return "imported" in self.read()

    def _add(self, name: str, fact: object) -> None:
        self._lock.require()
        files.put(self._folder / "run.json", (json.dumps({**self.read(), name: fact}, indent=2) + "\n").encode())


def recognised(path: Path) -> Path:
    """The same folder, where it is a whole run of this format; else a `StoreError` that says what it is."""
    if not (path / "run.json").is_file():
        raise StoreError(f"{path} is no run of patchgrad's: it has no run.json; name a folder that `patchgrad train` made.")
    about = files.loads(path / "run.json")
    if not isinstance(about, dict) or about.get("program") != "patchgrad":
        raise StoreError(f"{path} was written by another program; name a folder that `patchgrad train` made.")
    if about.get("format") not in READABLE:
        raise StoreError(
            f"{path} has format {about.get('format')}, written by patchgrad {about.get('version')}, and this one reads formats "
            f"{' and '.join(map(str, READABLE))}; use that version, or start another run with --run."
        )
    own = () if evaluates(path) else ("checkpoints",)
    for name in ("recipe.toml", "journal", "rollouts", *own):
        if not (path / name).exists():
            raise StoreError(f"{path} is only half there: {name} is missing; restore it, or start another run with --run.")
    return path


def evaluates(path: Path) -> bool:
    """Does this folder hold an evaluation, which has no checkpoints? Its policy is a name, where that of a run is a table."""
    try:
        return isinstance(tomllib.loads((path / "recipe.toml").read_text()).get("policy"), str)
    except (OSError, ValueError):
        return False


def occupied(path: Path, option: str) -> StoreError:
    """Why nothing can begin in a folder that holds something; an `option` of the command line named it: --run of a run, else --out."""
    elsewhere = f"name another folder with {option}."
    if not (path / "run.json").is_file():
        return StoreError(f"{path} holds something that is no run of patchgrad's; {elsewhere}")
    if not evaluates(path):
        more = "" if option != "--run" else "add --resume to go on with it, or "
        return StoreError(f"{path} holds a run already; {more}{elsewhere}")
    return StoreError(f"{path} holds an evaluation already; go on with it by the same evaluate with --resume, or {elsewhere}")
