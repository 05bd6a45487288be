"""A run that trains groups again, killed and resumed: it is the run that nobody killed, and its audit counts every token."""

from __future__ import annotations

import json
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_lagged_run import begun, position
from tests.runs.test_sharded_run import SHORT, _untimed

from patchgrad.config import dumps
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.component import Component
from patchgrad.recipes.loss import LossChoice
from patchgrad.recipes.stage import Replay
from patchgrad.runs.api import train
from patchgrad.runs.inspection.audit import audit
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.values import Task, Trajectory, Verdict
from patchgrad.viewer.page import page

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def parity(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    """A reward that an untaught policy gets for half of its attempts: the sum of an attempt's tokens is odd."""
    return float(sum(int(turn.action.token_ids.sum()) for turn in trajectory.turns) % 2)


ITERATIONS = 4
STAGE = replace(
    SHORT.stages[0],
    iterations=ITERATIONS,
    sampling=replace(SHORT.stages[0].sampling, tasks=3, attempts=3),
    replay=Replay(groups=2, age=2, ess=0.01),
    advantage=AdvantageChoice(filter_on="reward"),
    loss=LossChoice(),  # without a correction, so that the record says how many tokens were trained
)
REPLAYED = replace(SHORT, stages=(STAGE,), reward=Component("tests.runs.test_replayed_run:parity"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nobody kills."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with Run.create(folder, dumps(REPLAYED)) as run:
        train(REPLAYED, run, Silent())
    return Run.open(folder)


def test_a_run_that_trains_groups_again_and_is_killed_is_the_run_that_nobody_killed(whole: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = begun(folder, __name__, "REPLAYED")
    while position(folder) < 2 + 2:  # two iterations are done, so a third has something to train again
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = begun(folder, __name__, "REPLAYED")
    _, told = process.communicate(timeout=250)
    assert process.returncode == 0, told
    assert json.dumps(_untimed(Run.open(folder).results.metrics())) == json.dumps(_untimed(whole.results.metrics()))
    assert all(one.sound for one in audit(Run.open(folder)))


def test_an_audit_counts_what_was_trained_again(whole: Run) -> None:
    metrics = [row for row in whole.results.metrics() if row["phase"] == "stage1"]
    assert [len(row["replay"]) > 0 for row in metrics] == [False, True, True, True]
    assert all(row["replayed"] + row["replay_far"] == len(row["replay"]) for row in metrics)
    assert all(row["iteration"] - 2 <= one["iteration"] < row["iteration"] for row in metrics for one in row["replay"]), "an age of two"
    found = [one for one in audit(whole) if one.phase == "stage1"]
    assert all(one.sound and one.recorded == one.trained for one in found)
    assert [one.again > 0 for one in found] == [False, True, True, True]
    assert all(one.behind for one in found[1:]), "what is trained again was sampled by earlier weights"


def test_a_report_draws_what_was_trained_again(whole: Run) -> None:
    assert "Groups of earlier iterations" in page(whole)


def test_an_audit_finds_a_record_that_leaves_out_what_was_trained_again(whole: Run, tmp_path: Path) -> None:
    folder = shutil.copytree(whole.folder, tmp_path / "run")
    rows = [{**row, "replay": []} for row in whole.results.metrics()]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [one for one in audit(Run.open(folder)) if one.phase == "stage1"]
    assert [one.sound for one in found] == [True, False, False, False]
