"""A trainer on two machines: torchrun starts its ranks on both, and they train what the threads of one process train.

The second machine is a container with a name, processes and memory of its own, which sees the first one's network and some of its folders.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_sharded_run import SHORT, _run

from patchgrad.config import dumps
from patchgrad.recipes.component import Component
from patchgrad.store import Run

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

BETWEEN = replace(SHORT, stages=(), trainer=Component("sharded", {"ranks": 2}))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def machine(number: int, port: int, words: list[str], own: list[str]) -> subprocess.Popen[str]:
    """One of two machines on which torchrun starts a rank; `own` is put before its command."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number)]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(port), "--no-python", "--"]
    command = [*own, *torchrun, str(Path(sys.executable).with_name("patchgrad")), "train", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))


def container(shared: Path | None) -> list[str]:
    """Another machine, which sees a folder of this one or none, and not its memory."""
    seen = ["--bind", str(shared), str(shared)] if shared else []
    return ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp", *seen,
            "--unshare-uts", "--hostname", "other", "--unshare-ipc", "--die-with-parent", "--"]  # fmt: skip


def trained(folder: Path, shared: Path | None) -> tuple[int, str]:
    """The run on both machines: how the first ended, and what it said."""
    (folder / "mine.toml").write_text(dumps(BETWEEN))
    words, port = [str(folder / "mine.toml"), "--run", str(folder / "run")], free_port()
    first, second = machine(0, port, words, []), machine(1, port, words, container(shared))
    said, _ = first.communicate(timeout=280)
    second.kill()
    second.communicate()
    return first.returncode, said


def test_two_machines_train_what_one_trains(tmp_path: Path) -> None:
    ended, said = trained(tmp_path, tmp_path)
    assert ended == 0, said
    one = _run(tmp_path / "one", replace(BETWEEN, trainer=SHORT.trainer, optimiser=replace(SHORT.optimiser, threads=2)))
    two = Run.open(tmp_path / "run")
    names = [path.name for path in one.checkpoints.all()]
    assert names == [path.name for path in two.checkpoints.all()]
    for name in names:
        here, there = (run.folder / "checkpoints" / name / "model.safetensors" for run in (one, two))
        assert here.read_bytes() == there.read_bytes(), f"{name} has the same bytes"


def test_a_folder_that_one_machine_does_not_see_is_refused(tmp_path: Path) -> None:
    ended, said = trained(tmp_path, None)
    assert ended != 0
    assert "is not seen by every machine that trains: put the run's folder on a file system that all of them share" in said
