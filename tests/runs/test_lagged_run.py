"""A run whose sampling runs ahead of its training, killed and resumed: all is trained once, and nothing that is older than the lag."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_sharded_run import SHORT

from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.failures import Failures
from patchgrad.runs.inspection.audit import audit
from patchgrad.store import Run

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

LAG, ITERATIONS = 2, 5
STAGE = replace(
    SHORT.stages[0],
    iterations=ITERATIONS,
    sampling=replace(SHORT.stages[0].sampling, lag=LAG),
    advantage=AdvantageChoice(filter_on="nothing", failures=Failures(no_command="penalise", truncated="penalise")),  # so that all teach
)
LAGGED = replace(SHORT, stages=(STAGE,))
WITHIN = replace(LAGGED, policy=replace(SHORT.policy, update="token"))

PROGRAM = """
import sys
from pathlib import Path
from importlib import import_module
from patchgrad.config import dumps
from patchgrad.runs.api import train
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
folder, recipe = Path(sys.argv[1]), getattr(import_module(sys.argv[2]), sys.argv[3])
with Run.resume(folder) if folder.exists() else Run.create(folder, dumps(recipe)) as run:
    train(recipe, run, Silent())
"""


def begun(folder: Path, module: str = __name__, recipe: str = "LAGGED") -> subprocess.Popen[str]:
    """The run of a module's recipe, begun or gone on with in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, str(folder), module, recipe]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def position(folder: Path) -> int:
    """How many phases are done."""
    if not (folder / "state.json").exists():
        return 0
    return int((Run.open(folder).state() or {"position": 0})["position"])


def kill_in_iteration(folder: Path, number: int, recipe: str) -> None:
    """Goes on until so many iterations are done and the next one has begun, and ends it as the kernel would."""
    process, first = begun(folder, recipe=recipe), 2
    while position(folder) < first + number:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("recipe", ["LAGGED", "WITHIN"])
def test_a_lagged_run_that_is_killed_trains_everything_once_and_nothing_older_than_its_lag(recipe: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for number in (1, 3):
        kill_in_iteration(folder, number, recipe)
    process = begun(folder, recipe=recipe)
    _, told = process.communicate(timeout=250)
    assert process.returncode == 0, told
    run = Run.open(folder)
    found = [one for one in audit(run) if one.phase == "stage1"]
    assert [one.iteration for one in found] == list(range(ITERATIONS))
    assert all(one.sound for one in found), "all was sampled by weights of the last publications"
    assert any(one.behind for one in found), "sampling did not run ahead"
    sampling = STAGE.sampling
    attempts = [row["attempt"] for row in run.rollouts.rows(columns=["phase", "attempt"]) if row["phase"] == "stage1"]
    assert len(attempts) == len(set(attempts)) == ITERATIONS * sampling.tasks * sampling.attempts
    metrics = [row for row in run.results.metrics() if row["phase"] == "stage1"]
    assert all(0 <= row["staleness"] <= row["staleness_max"] <= LAG for row in metrics[1:])
