"""Machines of a cluster look at themselves: one that cannot is named, and the others tell."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.rollouts.process_hosts import ProcessHosts

from patchgrad.runs.inspection.machines import Machine, machines

FOLDER = "PATCHGRAD_TEST_FOLDER"


def number() -> int:
    """Which process this is."""
    return os.getpid()


def dies() -> int:
    """The process that comes first ends."""
    try:
        (Path(os.environ[FOLDER]) / "first").touch(exist_ok=False)
    except FileExistsError:
        time.sleep(0.5)
        return 1
    os._exit(1)


def fails() -> int:
    raise ValueError("it has no disk")


def asked(function: str) -> list[Machine]:
    async def ask() -> list[Machine]:
        hosts = ProcessHosts(2, 3)
        try:
            return await machines(hosts, f"{__name__}:{function}", wait=1.0)
        finally:
            await hosts.close()

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))


def test_each_machine_answers_with_its_time_and_its_room() -> None:
    found = asked("number")
    assert len({one.said for one in found}) == 2
    assert [(one.cells, one.lost) for one in found] == [(3, ""), (3, "")]
    assert all(abs(one.ahead) < 5 and one.free > 0 for one in found)


def test_a_machine_that_dies_or_fails_is_named_and_the_others_answer() -> None:
    found = sorted(asked("dies"), key=lambda one: one.lost)
    assert [bool(one.lost) for one in found] == [False, True]
    assert found[1].lost.endswith("is gone")
    assert ["it has no disk" in one.lost for one in asked("fails")] == [True, True]
