"""What packages of others read of what a run has exported: `python with_exports.py PACKAGE FOLDER` in an environment that has it.

Its last line is JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def inspect(folder: Path) -> dict[str, Any]:
    """The logs of a folder with their figures and samples."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    found = []
    for path in sorted(folder.iterdir()):
        log = read_eval_log(str(path))
        score = log.results.scores[0].metrics if log.results.scores else {}
        tokens = [one.model_usage["patchgrad"].total_tokens for one in log.samples]
        found.append([log.eval.task, log.status, {name: one.value for name, one in score.items()}, tokens])
    return {"listed": len(list_eval_logs(str(folder))), "logs": found}


def harbor(folder: Path) -> dict[str, list[str]]:
    """What Harbor finds wrong with each trajectory."""
    from harbor.utils.trajectory_validator import TrajectoryValidator

    wrong = {}
    for path in sorted(folder.iterdir()):
        validator = TrajectoryValidator()
        wrong[path.name] = [] if validator.validate(path) else validator.errors
    return wrong


def swebench(folder: Path) -> dict[str, Any]:
    """The predictions of each run, and the report that SWE-bench makes of their folder."""
    from swebench.harness.reporting import make_run_report
    from swebench.harness.utils import get_predictions_from_file

    tasks = [{"instance_id": name} for name in json.loads((folder / "tasks.json").read_text())]
    runs = {}
    os.chdir(folder)  # where SWE-bench looks for logs
    for path in sorted(folder.glob("predictions.*.jsonl")):
        name = path.name.split(".")[1]
        predictions = {one["instance_id"]: one for one in get_predictions_from_file(str(path), "", "")}
        report = make_run_report(predictions, tasks, name, report_dir=str(folder / "again"))
        runs[name] = {"patches": {id: one["model_patch"] for id, one in predictions.items()}, "report": json.loads(report.read_text())}
    (whole,) = folder.glob("*.predictions.jsonl")
    return {"runs": runs, "whole": get_predictions_from_file(str(whole), "", "")}


READERS: dict[str, Callable[[Path], Any]] = {"inspect": inspect, "harbor": harbor, "swebench": swebench}

if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps(READERS[sys.argv[1]](Path(sys.argv[2])))}\n")
