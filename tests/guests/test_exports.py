"""What a run exports is read by the packages that it is for, which `make guests` installs: inspect_ai, SWE-bench and Harbor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.guests.environments import told
from tests.runs.exported import attempts
from tests.runs.exported import run as run
from tests.runs.test_pipeline import needs_bubblewrap

from patchgrad.errors import Refused
from patchgrad.runs.exports.exporting import Wanted, exported
from patchgrad.store import Run

pytestmark = [pytest.mark.slow, needs_bubblewrap]


def read(package: str, folder: Path) -> Any:
    return told(package, Path(__file__).with_name("with_exports.py"), package, str(folder))


def test_inspect_ai_reads_logs_with_the_figures_of_the_run(run: Run, tmp_path: Path) -> None:
    known = attempts(run)
    assert exported(run, "inspect", Wanted(), tmp_path / "logs", Refused()) == len(known)
    found = read("inspect", tmp_path / "logs")
    assert found["listed"] == len(found["logs"]) == len({(row["phase"], row["iteration"]) for row in run.rollouts.rows()})
    assert sum(len(samples) for *_, samples in found["logs"]) == len(known)
    assert {status for _, status, *_ in found["logs"]} == {"success"}
    after = {report.name: report.pass_at_1.mean for report in run.results.reports()}
    figures = {task: metrics["accuracy"] for task, _, metrics, _ in found["logs"] if "accuracy" in metrics}
    assert figures["run evaluate-1 0"] == pytest.approx(after["base"])


def test_harbor_finds_nothing_wrong_with_trajectories(run: Run, tmp_path: Path) -> None:
    count = exported(run, "atif", Wanted(), tmp_path / "atif", Refused())
    wrong = read("harbor", tmp_path / "atif")
    assert len(wrong) == count
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("phase", ["rft", "evaluate-1"])
def test_swe_bench_reads_predictions_and_makes_the_same_report(run: Run, phase: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(run, "swebench", Wanted(phase), out, Refused())
    exported(run, "predictions", Wanted(phase), out / "whole.predictions.jsonl", Refused())
    numbers = {row["iteration"] for row in run.rollouts.rows(phase, columns=["phase", "iteration"])}
    known = [one for number in sorted(numbers) for one in run.rollouts.read(phase, number)]
    (out / "tasks.json").write_text(json.dumps(sorted({one.task.id for one in known})))
    found = read("swebench", out)
    reports = {path.name.split(".")[1]: json.loads(path.read_text()) for path in out.glob("run.run-*.json")}
    assert len(reports) == max(sum(one.task.id == name for one in known) for name in {one.task.id for one in known})
    assert {name: one["report"] for name, one in found["runs"].items()} == reports
    resolved = sum(one.solved for one in known)
    assert sum(report["resolved_instances"] for report in reports.values()) == resolved
    assert {one["instance_id"]: one["model_patch"] for one in found["whole"]} == found["runs"]["run-1"]["patches"]
