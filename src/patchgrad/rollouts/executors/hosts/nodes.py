"""Nodes of a Ray cluster on this machine, and the process that keeps them: all end with whoever has started it, however that ends.

    python -m patchgrad.rollouts.executors.hosts.nodes 3 16 FOLDER     three nodes with 16 cells each; prints the address

Its standard input is a pipe that the starter holds open. Ray ends its own processes too, but some of them a minute late, or not at all.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from patchgrad.errors import ClusterFault
from patchgrad.links.kept import KeptFolder
from patchgrad.rollouts.executors.hosts.links import UNWATCHED

STORE = 100 << 20
"""Bytes of a node's object store: attempts are small, and weights go other ways."""

ENDS = 60.0
"""Seconds in which a keeper ends its nodes."""

PR_SET_CHILD_SUBREAPER = 36


class Nodes:
    """So many nodes, each with these cells; they end with this process, or when they are closed."""

    def __init__(self, count: int, cells: int) -> None:
        self._folder = KeptFolder("patchgrad-")  # of this process: the keeper may be killed, and so may all that it has started
        command = [sys.executable, "-m", __name__, str(count), str(cells), str(self._folder.path)]
        path = os.pathsep.join(filter(None, sys.path))  # a host imports what this process can import
        with tempfile.TemporaryFile("w+") as said:  # and no pipe: one that nobody reads would stop who writes
            self._keeper = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            self.address = self._keeper.stdout.readline().strip() if self._keeper.stdout else ""
            if not self.address:
                self._keeper.communicate()
                self._folder.close()
                said.seek(0)
                why = (said.read().strip().splitlines() or ["it gave no reason"])[-1]
                raise ClusterFault(f"Ray could not start {count} nodes on this machine: {why}")

    @property
    def pid(self) -> int:
        """The keeper's, below which all of them run."""
        return self._keeper.pid

    def close(self, seconds: float = ENDS) -> None:
        """Nothing of them is left; a keeper that has not ended them after so many seconds is killed with all that it has started."""
        try:
            self._keeper.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(below(self._keeper.pid))
            self._keeper.kill()
            self._keeper.communicate()
        self._folder.close()


def main(count: int, cells: int, folder: str) -> None:
    """Starts the nodes, and waits until nobody holds them any more."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what Ray's processes leave behind is this one's
    try:
        os.mkdir(f"{folder}/ray")
        os.environ["RAY_TMPDIR"] = folder  # else it notes its address where all users of this machine look for a cluster
        for name, value in UNWATCHED.items():
            os.environ.setdefault(name, value)
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "temp_dir": folder}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(count):
            cluster.add_node(num_cpus=0, resources={"cells": cells}, object_store_memory=STORE)
        sys.stdout.write(f"{cluster.address}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        _end_children()
    os._exit(0)  # Ray would look for its processes


def _end_children() -> None:
    """Kills what is below this process, until nothing is."""
    while children := below(os.getpid()):
        _kill(children)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def below(root: int) -> list[int]:
    """The processes below this one, those that have ended and were not waited for too."""
    parents = dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return [process for process in parents if root in _above(process, parents)]


def _above(process: int, parents: Mapping[int, int]) -> list[int]:
    found: list[int] = []
    while process := parents.get(process, 0):
        found.append(process)
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
