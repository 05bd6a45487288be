"""A run whose attempts and replicas are on the nodes of a cluster is the run of one process; it is killed, and goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.runs.test_sharded_run import _untimed

from patchgrad.store import Run

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]

PROGRAM = """
import sys
from pathlib import Path
from tests.runs.test_sharded_run import SHORT
from patchgrad.config import dumps, override
from patchgrad.runs.api import train
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
folder, recipe = Path(sys.argv[1]), override(SHORT, {"policy.replicas": sys.argv[3]})
with Run.resume(folder) if folder.exists() else Run.create(folder, dumps(recipe)) as run:
    train(recipe, run, Silent(), cluster=sys.argv[2])
"""


LOSSY = (
    *("unshare", "--net", "sh", "-c"),
    'ip link set lo up && iptables -A INPUT -i lo -m statistic --mode random --probability 0.02 -j DROP && exec "$@"',
    "sh",
)
"""Runs what follows in a network of its own that loses every fiftieth packet."""


def lossy() -> bool:
    """Can there be such a network here?"""
    return shutil.which("unshare") is not None and subprocess.run([*LOSSY, "true"], capture_output=True).returncode == 0


def begun(folder: Path, cluster: str, replicas: int = 0, inside: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A run in a process of its own, which leads a group: whatever it starts is in it, or was put elsewhere on purpose."""
    command = [*inside, sys.executable, "-c", PROGRAM, str(folder), cluster, str(replicas)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "MARK": str(folder)})


def ended(process: subprocess.Popen[str]) -> None:
    _, told = process.communicate(timeout=280)
    assert process.returncode == 0, told


def left(folder: Path) -> list[str]:
    """Processes that began below a run, by the variable that it gave them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()[:80])
        except OSError:  # it has ended
            continue
    return found


def test_a_run_on_two_nodes_with_two_replicas_has_the_bytes_of_a_run_on_none_and_is_killed_in_between(tmp_path: Path) -> None:
    ended(begun(tmp_path / "one", ""))
    torn = begun(tmp_path / "two", "local:2", replicas=2)
    journal = tmp_path / "two" / "journal"
    while not any(path.stat().st_size > 20_000 for path in journal.glob("*")):
        assert torn.poll() is None
        time.sleep(0.05)
    torn.send_signal(signal.SIGKILL)
    torn.communicate()
    last = time.monotonic() + 60
    while left(tmp_path / "two") and time.monotonic() < last:
        time.sleep(0.2)
    assert not left(tmp_path / "two"), "nothing of a cluster outlives the run that made it"
    ended(begun(tmp_path / "two", "local:2", replicas=2))
    assert not left(tmp_path / "two")
    same(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not lossy(), reason="needs root, iproute2 and iptables")
def test_a_run_over_a_network_that_loses_packets_has_the_bytes_of_a_run_on_none(tmp_path: Path) -> None:
    ended(begun(tmp_path / "one", ""))
    ended(begun(tmp_path / "two", "local:2", 2, LOSSY))
    same(tmp_path)


def same(folder: Path) -> None:
    """Both runs have the same metrics but for durations, and checkpoints and tables of what was trained of the same bytes."""
    one, two = Run.open(folder / "one"), Run.open(folder / "two")
    assert json.dumps(_untimed(one.results.metrics())) == json.dumps(_untimed(two.results.metrics()))
    for path in one.trained.files():
        assert path.read_bytes() == (two.folder / "trained" / path.name).read_bytes()
    for path in one.checkpoints.all():
        assert (path / "model.safetensors").read_bytes() == (two.folder / "checkpoints" / path.name / "model.safetensors").read_bytes()
