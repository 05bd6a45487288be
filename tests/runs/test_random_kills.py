"""A hundred processes of runs on a cluster are killed at random, and each run comes out as one that nobody touched."""

from __future__ import annotations

import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.faults.kills import kill

KILLS = 100


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_runs_whose_processes_are_killed_at_random_come_out_as_one_that_nobody_touched(tmp_path: Path) -> None:
    told = kill(tmp_path, KILLS, seed=0)
    killed = Counter(one["killed"] for one in told)
    assert killed.total() == KILLS
    assert len(killed) == 6, f"each role was killed at least once: {killed}"
