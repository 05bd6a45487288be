"""Hosts on Ray: three nodes on this machine, one of which is killed and one frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.rollouts.test_hosts import addresses, began, collected, go

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)

from patchgrad.cli.cluster.shared import ray
from patchgrad.errors import ConfigError
from patchgrad.rollouts.attempts import given_up, kin
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.executors.hosts import Hosts
from patchgrad.rollouts.executors.hosts.executor import HostsExecutor
from patchgrad.rollouts.executors.hosts.nodes import Nodes, below
from patchgrad.rollouts.executors.hosts.opening import opened
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.runs import leaving
from patchgrad.store import Run
from patchgrad.testing import check_executor


def nothing() -> None:
    """The cluster goes on."""


def again() -> Hosts:
    """The hosts of the cluster that is there."""
    from patchgrad.rollouts.executors.hosts.ray_hosts import RayHosts  # Ray reads its settings when it is imported

    return RayHosts(nothing)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    hosts = opened("local:2", 8)
    yield
    asyncio.run(hosts.close())


def test_an_executor_over_ray_keeps_the_contract(cluster: None) -> None:
    asyncio.run(check_executor(lambda bound: HostsExecutor(again(), bound, given_up=str), deadline=280.0))


def test_attempts_on_ray_have_the_turns_of_attempts_here(cluster: None, tmp_path: Path) -> None:
    with Run.create(tmp_path / "one", "") as run:
        here = collected(run, LocalExecutor(4), "a", tmp_path)
    with Run.create(tmp_path / "two", "") as run:
        executor = HostsExecutor(again(), 4, given_up=given_up, kin=kin, kept=(ToolCache,))
        there = collected(run, executor, "a", tmp_path)
        assert addresses(there) == addresses(here)
        assert not executor.lost


async def lose(folder: Path, how: signal.Signals, node: bool) -> None:
    """Six items have begun on two hosts; one of these, or its node, is killed or frozen. The others go on when its items began again."""
    await began(folder, 6)
    victim = int(next(iter(folder.glob("began-0-*"))).name.split("-")[2])
    os.kill(parent(victim) if node else victim, how)
    await began(folder, 9 if not node else 7)
    (folder / "go on").touch()


def parent(process: int) -> int:
    """Who started a process: a node, for a worker."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("how", "node"),
    [
        pytest.param(signal.SIGKILL, False, id="a worker is killed"),
        pytest.param(signal.SIGSTOP, False, id="a worker is frozen", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, True, id="a node is killed", marks=pytest.mark.slow),
    ],
)
def test_what_ran_on_a_lost_host_runs_on_another_one(cluster: None, how: signal.Signals, node: bool, tmp_path: Path) -> None:
    async def test() -> None:
        executor = HostsExecutor(again(), 6, given_up=lambda item: item, kin=str)
        losing = asyncio.create_task(lose(tmp_path, how, node))
        results = [result async for result in executor.map("tests.rollouts.test_hosts:waited", str(tmp_path), range(6))]
        await losing
        assert sorted(item for item, _ in results) == list(range(6))
        assert sum(executor.lost.values()) == 1
        await executor.close()

    go(test)


SIX = """
import asyncio, sys
from pathlib import Path
from patchgrad.errors import ClusterFault
from patchgrad.rollouts.executors.hosts.executor import HostsExecutor
from patchgrad.rollouts.executors.hosts.nodes import Nodes, below
from patchgrad.rollouts.executors.hosts.opening import opened

async def main():
    executor = HostsExecutor(opened("local:2", 8), 6, given_up=str)
    try:
        async for result in executor.map("tests.rollouts.test_hosts:waited", sys.argv[1], range(6)):
            print(result)
    except ClusterFault as fault:
        print(fault)
    assert not executor.lost
    await executor.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_node_that_leaves_is_empty_in_seconds_and_its_items_run_on_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "5" * 64)
    with subprocess.Popen([sys.executable, "-c", SIX, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        asyncio.run(began(tmp_path, 6))
        victim = int(next(iter(tmp_path.glob("began-0-*"))).name.split("-")[2])
        nodes = [node for node in leaving.nodes() if node.process == parent(victim)]
        leaving.told(nodes, "maintenance")
        assert ray(nodes[0].drain("maintenance", 60)) == 0
        assert leaving.empty(nodes, 30)
        (tmp_path / "go on").touch()
        said, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    assert sorted(int(line[1]) for line in said.splitlines()) == list(range(6))


@pytest.mark.slow
def test_a_run_whose_cluster_loses_its_head_ends_with_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SIX, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "MARK": str(tmp_path)}) as process:
        asyncio.run(began(tmp_path, 6))
        (head,) = [pid for pid in marked(tmp_path) if Path(f"/proc/{pid}/comm").read_text().strip() == "gcs_server"]
        os.kill(head, signal.SIGKILL)
        said, _ = process.communicate(timeout=200)
    assert (said, process.returncode) == ("The head of the cluster has not answered for 30 s: resume the run when it does.\n", 0)
    assert not marked(tmp_path)


def marked(folder: Path) -> list[int]:
    """Processes that began below the one that was given this folder as a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"MARK={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_another_word_for_a_cluster_is_refused() -> None:
    with pytest.raises(ConfigError, match="say how many nodes, as in local:3"):
        opened("local:none", 4)


def test_nodes_whose_keeper_is_frozen_are_ended_with_all_that_they_have_started() -> None:
    nodes = Nodes(1, 1)
    keeper = nodes.pid
    folder, started = folder_of(keeper), below(keeper)
    os.kill(keeper, signal.SIGSTOP)
    nodes.close(seconds=0.5)
    assert len(started) > 2
    assert not folder.exists()
    ended([keeper, *started])


def folder_of(keeper: int) -> Path:
    """Where the nodes of a keeper write."""
    folder = Path(Path(f"/proc/{keeper}/cmdline").read_bytes().split(b"\0")[-2].decode())
    assert folder.is_dir()
    return folder


def test_nodes_whose_keeper_was_killed_leave_no_folder() -> None:
    nodes = Nodes(1, 1)
    folder = folder_of(nodes.pid)
    os.kill(nodes.pid, signal.SIGKILL)
    nodes.close()
    assert not folder.exists()


def ended(started: list[int]) -> None:
    """They are no more; what was killed may end a moment later."""
    deadline = time.monotonic() + 60
    while any(map(alive, started)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Does it run? A process that has ended and that nobody has waited for yet does not."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
