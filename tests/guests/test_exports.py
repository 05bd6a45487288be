"""What a run exports is read by the packages that it is for, which `make guests` installs: inspect_ai, SWE-bench and Harbor."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.guests.environments import environment, told
from tests.runs.exported import attempts
from tests.runs.exported import run as run
from tests.runs.test_pipeline import needs_bubblewrap
from tests.runs.test_two_machines import free_port
from tests.viewer.serving import browser

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
    tokens = [sum(len(turn.context) + turn.action.tokens for turn in one.trajectory.turns) for one in known.values()]
    assert sorted(count for *_, counts in found["logs"] for count in counts) == sorted(tokens)
    assert {status for _, status, *_ in found["logs"]} == {"success"}
    after = {report.name: report.pass_at_1.mean for report in run.results.reports()}
    figures = {task: metrics["accuracy"] for task, _, metrics, _ in found["logs"] if "accuracy" in metrics}
    assert figures["run evaluate-1 0"] == pytest.approx(after["base"])


def test_inspect_view_shows_the_logs_and_the_messages_of_a_sample(run: Run, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    exported(run, "inspect", Wanted(), tmp_path / "logs", Refused())
    one = max(run.rollouts.read("demonstrations", 0), key=lambda one: len(one.trajectory.turns))
    turns = one.trajectory.turns
    said = [*(turn.action.text for turn in turns), *(turn.observation.content for turn in turns[:-1])]
    words = {word for text in said for word in re.findall("[A-Za-z]{4,}", text)[:1]}
    assert len(words) > 1
    with viewed(tmp_path / "logs") as url, browser(viewport={"width": 1300, "height": 6000}) as page:
        page.route("**/api/flow?*", lambda asked: asked.fulfill(status=200, body=""))  # a file of theirs that no log has to have
        page.goto(url)
        for row in run.rollouts.rows(columns=["phase", "iteration"]):
            expect(page.get_by_text(f"run {row['phase']} {row['iteration']}", exact=True).first).to_be_visible()
        page.get_by_text("run demonstrations 0", exact=True).first.click()
        expect(page.get_by_text("hidden tests").first).to_be_visible()
        page.get_by_text(one.task.id, exact=True).first.click()
        expect(page.get_by_text(f"Sample {one.task.id} (Epoch 1)")).to_be_visible()
        expect(page.get_by_text("C" if one.solved else "I", exact=True).first).to_be_visible()
        for word in words:
            expect(page.locator("body")).to_contain_text(word)


@contextmanager
def viewed(logs: Path) -> Iterator[str]:
    """The address of inspect_ai's own viewer on a folder of logs."""
    port, said = free_port(), logs.with_name("viewer.txt")
    command = [str(environment("inspect") / "bin" / "inspect"), "view", "start", "--log-dir", str(logs), "--port", str(port)]
    with said.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            deadline = time.monotonic() + 240
            while "Running on" not in said.read_text():
                assert server.poll() is None, said.read_text()
                assert time.monotonic() < deadline, "it does not begin"
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


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
