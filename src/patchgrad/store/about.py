"""What a folder says of itself in `run.json`: that it is a run, of which format, and what made it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from patchgrad import __version__
from patchgrad.errors import StoreError
from patchgrad.store import files

FORMAT = 4
READABLE = (3, FORMAT)
"""Runs of format 3 have other names in their metrics and in their recipe (`store/format3.py`, `recipes/moved.py`); all of it is read."""


def new_about() -> dict[str, Any]:
    """Of a run that begins now."""
    return {"program": "patchgrad", "format": FORMAT, "version": __version__, "created": datetime.now(UTC).isoformat()}


def read_about(folder: Path) -> dict[str, Any]:
    """Which version of patchgrad made the folder, when, and in which sandboxes."""
    return dict(files.loads(folder / "run.json"))


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
    for name in ("recipe.toml", "journal", "rollouts", "checkpoints"):
        if not (path / name).exists():
            raise StoreError(f"{path} is only half there: {name} is missing; restore it, or start another run with --run.")
    return path


def occupied(path: Path) -> StoreError:
    """Why no run can begin in a folder that holds something."""
    if (path / "run.json").is_file():
        return StoreError(f"{path} holds a run already; add --resume to go on with it, or name another folder with --run.")
    return StoreError(f"{path} holds something that is no run of patchgrad's; name another folder with --run.")
