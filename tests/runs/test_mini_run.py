"""A run of an agent of others whose processes are killed again and again comes out as one that nobody touched."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agents.gateway.test_mini_swe_agent import PYTHON

from patchgrad.runs.inspection.audit import audit
from patchgrad.runs.inspection.comparing import compare
from patchgrad.store import Run

OPTIONS = ("--agent.scaffold.python", PYTHON, "--agent.scaffold", "mini-swe-agent", "--agent.action_tokens", "96", "--warmup.epochs", "12")
COMMAND = (sys.executable, "-c", "from patchgrad.cli import main; raise SystemExit(main())", "train")


def begun(folder: Path, resume: bool) -> subprocess.Popen[bytes]:
    what = ("--resume",) if resume else ("tiny", *OPTIONS)
    return subprocess.Popen([*COMMAND, *what, "--run", str(folder)], stdout=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.skipif(not Path(PYTHON).is_file(), reason="PATCHGRAD_MINI names no Python that has mini-swe-agent")
def test_a_run_of_mini_swe_agent_that_is_killed_ends_with_the_bytes_of_one_that_is_not(tmp_path: Path) -> None:
    chance, kills = random.Random(0), 0
    assert begun(tmp_path / "whole", resume=False).wait() == 0
    running = begun(tmp_path / "killed", resume=False)
    while running.poll() is None:
        try:
            running.wait(chance.uniform(8.0, 25.0))
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
            kills += 1
            running = begun(tmp_path / "killed", resume=(tmp_path / "killed" / "run.json").exists())
    assert running.returncode == 0
    assert kills > 1
    whole, killed = Run.open(tmp_path / "whole"), Run.open(tmp_path / "killed")
    found = compare(whole, killed)
    assert found.same
    assert not found.missing
    assert [path.read_bytes() for path in whole.trained.files()] == [path.read_bytes() for path in killed.trained.files()]
    assert all(one.sound for one in audit(killed))
