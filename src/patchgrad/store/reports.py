"""Reports from wherever they were kept: a run's folder, its `report.json`, or what `patchgrad evaluate --json` printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.store.codec import value
from patchgrad.values import Report


def read_reports(path: Path) -> list[Report]:
    """All reports of a run's folder or of a file."""
    return _read(path / "report.json" if path.is_dir() else path)


def read_report(source: str) -> Report:
    """The last report there, or the one of a name: `runs/laptop`, `runs/laptop:base`, `mine.json`. Older ones lack what came later."""
    path, name = Path(source), ""
    if not path.exists():
        before, _, after = source.rpartition(":")
        path, name = Path(before or source), after
    found = read_reports(path)
    named = [report for report in found if not name or report.name == name]
    if not named:
        raise StoreError(f"{path} has no report {name!r}; there are: {', '.join(report.name for report in found) or 'none'}.")
    return named[-1]


def _read(path: Path) -> list[Report]:
    try:
        told: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): name a run's folder or a report in JSON.") from error
    except ValueError as error:
        raise StoreError(
            f"{path} is no JSON ({error}): name a run's folder, or a file that `patchgrad evaluate --json` printed."
        ) from error
    kept = told.get("reports", [told]) if isinstance(told, dict) else told
    if not isinstance(kept, list) or not all(isinstance(item, dict) and "pass_at_1" in item for item in kept):
        raise StoreError(f"{path} holds no report: name a run's folder, or a file that `patchgrad evaluate --json` printed.")
    return [value(Report, item) for item in kept]
