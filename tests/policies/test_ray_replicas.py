"""Replicas as actors of a Ray cluster: the worker of one is killed, and the file system of another is not this one's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.policies.test_replicas import alone, drawn, replicated, same, weights

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)

from patchgrad.config import override
from patchgrad.errors import ClusterFault
from patchgrad.policies.replicas.present import Patience
from patchgrad.recipes.tiny import tiny
from patchgrad.rollouts.executors.hosts.opening import opened
from patchgrad.runs.build.replicas import actors
from patchgrad.values import Action


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    hosts = opened("local:2", 8)
    yield
    asyncio.run(hosts.close())


def workers() -> list[int]:
    """Processes of Ray's that a replica is in."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::Served" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended
            continue
    return found


def test_replicas_on_ray_draw_what_one_policy_draws_and_a_killed_one_changes_nothing(cluster: None) -> None:
    before = set(workers())
    policy = replicated(actors(tiny()), patience=Patience(again=0.05))
    own = [pid for pid in workers() if pid not in before]
    assert len(own) == 2

    async def kill_meanwhile() -> list[Action]:
        acting = asyncio.ensure_future(drawn(policy))
        await asyncio.sleep(0.01)
        os.kill(own[0], signal.SIGKILL)
        return await acting

    assert same(asyncio.run(kill_meanwhile()), alone(0, 0))
    policy.load(weights(3), 7)
    assert same(asyncio.run(drawn(policy)), alone(3, 7))
    policy.close()


def test_a_replica_that_no_machine_has_gpus_for_says_so(cluster: None) -> None:
    opening = actors(override(tiny(), {"machine.gpus": "2"}), seconds=0.5)
    with pytest.raises(ClusterFault, match="a replica takes 1 GPUs, and no machine of the cluster has as many for replicas"):
        asyncio.run(asyncio.wait_for(opening(0), 60))
