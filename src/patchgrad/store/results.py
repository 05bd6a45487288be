"""What a run found, for people and common tools: `metrics.jsonl`, `predictions.jsonl`, `report.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgrad.errors import Refuse, stop
from patchgrad.store import files, format3
from patchgrad.store.about import FORMAT, About
from patchgrad.store.codec import finite, plain, value
from patchgrad.store.lock import WriterLock
from patchgrad.values import Report, Rollout


class Results:
    """Figures of each iteration, and the table of policies at the end."""

    def __init__(self, folder: Path, lock: WriterLock, about: About) -> None:
        self._folder, self._lock, self._about = folder, lock, about

    def write_metrics(self, record: Mapping[str, Any]) -> None:
        """One line; it should name `phase` and `iteration`. A number that is not finite is written as null."""
        self._lock.require()
        files.append(self._folder / "metrics.jsonl", json.dumps(finite(record)).encode() + b"\n")

    def metrics(self, refuse: Refuse = stop) -> list[dict[str, Any]]:
        """One record an iteration: where an iteration was repeated after a resume, the later one. A damaged line goes to `refuse`."""
        latest: dict[tuple[Any, Any], dict[str, Any]] = {}
        for record in map(format3.metrics, files.records(self._folder / "metrics.jsonl", refuse)):
            key = (record.get("phase"), record.get("iteration"))
            latest.pop(key, None)
            latest[key] = record
        return list(latest.values())

    def write_predictions(self, model: str, rollouts: Iterable[Rollout]) -> None:
        """SWE-bench's format: the first attempt at each task."""
        self._lock.require()
        first: dict[str, Rollout] = {}
        for rollout in rollouts:
            first.setdefault(rollout.task.id, rollout)
        rows = [{"instance_id": name, "model_name_or_path": model, "model_patch": rollout.handed_in} for name, rollout in first.items()]
        files.put(self._folder / "predictions.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())

    def write_reports(self, reports: Sequence[Report]) -> None:
        """The table, one entry a policy, in the order of training."""
        self._lock.require()
        data = {"format": FORMAT, "sandbox": self._about.read().get("sandbox"), "reports": [plain(report) for report in reports]}
        files.put(self._folder / "report.json", (json.dumps(finite(data), indent=2) + "\n").encode())

    def reports(self) -> list[Report]:
        """What `write_reports` wrote; empty before."""
        path = self._folder / "report.json"
        return [value(Report, item) for item in files.loads(path)["reports"]] if path.exists() else []
