"""Attempts -> SWE-bench's files, a run each: what was handed in as predictions, and the reports on it, so that its tools can look again.

FOLDER/predictions.run-1.jsonl   FOLDER/MODEL.run-1.json   FOLDER/logs/run_evaluation/run-1/MODEL/INSTANCE/report.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchgrad.grading.predictions import Prediction
from patchgrad.grading.reports import Graded, instance_report, run_report, write_instance, write_run
from patchgrad.values import Group, Rollout


def write_runs(folder: Path, model: str, groups: Sequence[Group]) -> list[Path]:
    """The run reports, one for each attempt that every task had. Attempt number n at each task is run n.

    A patch that was never submitted is an empty prediction, as it solves nothing; an attempt that broke is none, so its task is incomplete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    most = max((len(group.rollouts) for group in groups), default=0)
    runs = [[group.rollouts[number] for group in groups if number < len(group.rollouts)] for number in range(most)]
    return [_write(folder, model, f"run-{number}", run) for number, run in enumerate(runs, 1) if not all(one.broken for one in run)]


def predicted(model: str, rollouts: Sequence[Rollout]) -> dict[str, Prediction]:
    """What was handed in, by task, of one attempt at each; an attempt that broke is no prediction."""
    return {one.task.id: Prediction(one.task.id, model, one.handed_in) for one in rollouts if not one.broken}


def lines(predictions: Mapping[str, Prediction]) -> str:
    """The predictions as SWE-bench's JSON lines."""
    rows = [{"instance_id": one.id, "model_name_or_path": one.model, "model_patch": one.patch} for one in predictions.values()]
    return "".join(json.dumps(row) + "\n" for row in rows)


def _write(folder: Path, model: str, run: str, rollouts: Sequence[Rollout]) -> Path:
    predictions = predicted(model, rollouts)
    (folder / f"predictions.{run}.jsonl").write_text(lines(predictions))
    told = [one for one in rollouts if one.task.id in predictions]
    graded = {one.task.id: Graded(one.verdict, "; ".join(one.verdict.tamper)) for one in told if one.handed_in}
    for name, found in graded.items():
        write_instance(folder, run, predictions[name], instance_report(predictions[name], found))
    return write_run(folder, run, predictions, run_report({one.task.id for one in rollouts}, predictions, graded))
