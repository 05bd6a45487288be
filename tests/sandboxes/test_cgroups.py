"""The hard limit on a cell's memory: it holds against what is faster than a look, and its groups go with those they belong to."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgrad.contracts import Result
from patchgrad.errors import SandboxLost
from patchgrad.sandboxes.bwrap import BwrapSandboxes, cgroups
from patchgrad.sandboxes.bwrap.cgroups import Group, make, place, remove
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits

HERE = pytest.mark.skipif(place() is None or shutil.which("bwrap") is None, reason="this user may make no memory cgroup here")
RAISES = """
import mmap, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
reserved = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=0)  # MAP_NORESERVE
print("reserved", flush=True)
taken = mmap.mmap(-1, 1 << 30)
for place in range(0, int(sys.argv[1]) << 20, 4096):
    taken[place] = 1
    if place % (8 << 20) == 0: time.sleep(0.05)  # slow enough for a look
print("taken")
"""
SPREAD = """
import mmap, resource
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
wide = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
for place in range(0, 1 << 40, 2 << 20): wide[place]  # nothing is resident of what is only read, but a page table each
print("spread")
"""
HOGS = "for i in 1 2 3 4 5 6; do python3 -c 'x = bytearray(90 << 20); import time; time.sleep(9)' & done; wait; echo over"


def groups() -> list[Path]:
    """Ours, of this process."""
    found = place()
    assert found is not None
    return [group for group in found.glob(f"{cgroups.PREFIX}*") if f".{os.getpid()}." in group.name]


@HERE
def test_an_episode_never_holds_more_than_its_limit_and_leaves_no_group(tmp_path: Path) -> None:
    limits = Limits(command_seconds=20.0, memory=128 << 20, disk=32 << 20)
    task = a_task(repository=a_repository(tmp_path, {"a": "a"}), limits=limits)

    async def steps() -> None:
        backend, others = BwrapSandboxes(cells=2), groups()
        try:
            async with await backend.open(task) as sandbox:
                (group,) = [group for group in groups() if group not in others]
                (cell,) = [path for path in group.iterdir() if path.is_dir() and path.name != "nest"]
                (limit,) = [path for name in ("memory.limit_in_bytes", "memory.max") if (path := cell / name).exists()]
                (peak,) = [path for name in ("memory.max_usage_in_bytes", "memory.peak") if (path := cell / name).exists()]
                bound = int(limit.read_text())
                assert limits.memory + limits.disk <= bound < 2 * (limits.memory + limits.disk)
                await sandbox.run(HOGS)
                assert limits.memory < int(peak.read_text()) <= bound
                assert (await sandbox.run("echo next")).output.endswith("next\n")
        finally:
            await backend.close()
        assert not group.exists()

    asyncio.run(steps())


@HERE
@pytest.mark.parametrize("how", ["run", "exec"])
def test_where_a_group_bounds_what_is_held_a_program_may_reserve_more_address_space_and_not_take_more(tmp_path: Path, how: str) -> None:
    limits = Limits(command_seconds=20.0, memory=128 << 20, disk=32 << 20)
    task = a_task(repository=a_repository(tmp_path, {"raises.py": RAISES}), limits=limits)

    async def steps() -> None:
        backend = BwrapSandboxes(cells=1)
        try:
            async with await backend.open(task) as sandbox:

                async def said(command: str) -> Result:
                    return await (sandbox.run(command) if how == "run" else sandbox.exec(["bash", "-c", command]))

                assert (await said("ulimit -Sv; ulimit -Hv")).output == f"{limits.memory >> 10}\nunlimited\n"
                assert "MemoryError" in (await said("python3 -c 'bytearray(1 << 28)'")).output, "who does not ask has the task's limit"
                assert (await said("python3 raises.py 16")).output == "reserved\ntaken\n"
                assert (await said("ulimit -Sv unlimited; ulimit -Sv")).output == "unlimited\n"
                ended = await said("python3 raises.py 1024")
                assert ended.state == "out of memory"
                assert ended.output.startswith("reserved\n")
                assert "taken" not in ended.output
                assert (await said("ulimit -Sv")).output == f"{limits.memory >> 10}\n"
        finally:
            await backend.close()

    asyncio.run(steps())


@HERE
def test_page_tables_of_much_address_space_are_held_too(tmp_path: Path) -> None:
    limits = Limits(command_seconds=20.0, memory=128 << 20, disk=32 << 20)
    task = a_task(repository=a_repository(tmp_path, {"spread.py": SPREAD}), limits=limits)

    async def steps() -> str:
        backend = BwrapSandboxes(cells=1)
        try:
            async with await backend.open(task) as sandbox:
                return (await sandbox.run("python3 spread.py; echo $?")).output
        except SandboxLost:
            return "lost"
        finally:
            await backend.close()

    said = asyncio.run(steps())
    assert said == "lost" or said.endswith("137\n")


@HERE
def test_groups_of_the_dead_are_swept_and_those_of_the_living_stay() -> None:
    above = place()
    assert above is not None
    made = [make(name, 700_123, lambda owner: owner != "dead") for name in ("lives", "dead")]
    try:
        assert [group is not None and (group / "nest").stat().st_uid for group in made] == [700_123, 700_123]
        third = make("third", 700_124, lambda owner: owner != "dead")
        made.append(third)
        assert [group is not None and group.exists() for group in made] == [True, False, True]
    finally:
        for group in made:
            if group is not None:
                remove(group)


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Path]:
    """A real folder of the second version, whatever it controls here; the test's own group in it is taken away."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
    if not lines or os.geteuid() != 0 or not os.access(lines[0][4], os.W_OK):
        pytest.skip("no version 2 here that this user may write")
    top = Path(lines[0][4]) / f"test-{os.getpid()}"
    try:
        top.mkdir()
    except OSError:
        pytest.skip("no version 2 here that this user may write")
    yield top
    remove(top)


def test_in_version_2_a_process_moves_into_its_cell_s_group_and_the_group_goes_when_it_ends(second: Path) -> None:
    group = Group(str(second), "1")
    door = group.door()
    enters = "import os, sys, time; os.write(int(sys.argv[1]), b'0'); print('in', flush=True); time.sleep(30)"
    sleeper = subprocess.Popen([sys.executable, "-c", enters, str(door)], pass_fds=[door], stdout=subprocess.PIPE)
    os.close(door)
    with sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == b"in\n"
        assert (second / "1" / "cgroup.procs").read_text().split() == [str(sleeper.pid)]
        sleeper.kill()
    group.remove()
    assert list(second.glob("*/")) == []


def test_version_2_divides_beside_our_own_group_and_version_1_below_it(tmp_path: Path) -> None:
    (tmp_path / "user.slice" / "mine.scope").mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/user.slice/mine.scope\n")
    (proc / "mountinfo").write_text(f"31 23 0:28 / {tmp_path} rw,relatime shared:9 - cgroup2 cgroup2 rw\n")
    assert place(proc, 0) == tmp_path / "user.slice"
    (proc / "cgroup").write_text("4:cpu,memory:/user.slice/mine.scope\n0::/\n")
    (proc / "mountinfo").write_text(f"31 23 0:28 / {tmp_path} rw,relatime - cgroup cgroup rw,cpu,memory\n")
    assert place(proc, 0) == tmp_path / "user.slice" / "mine.scope"
    (proc / "mountinfo").write_text(f"31 23 0:28 / {tmp_path} rw,relatime - cgroup cgroup rw,cpu\n")
    assert place(proc, 0) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="another user has no place for groups, and makes none")
def test_where_no_group_can_be_made_there_is_none_and_nothing_is_left(tmp_path: Path) -> None:
    proc, groups_of_version_1 = tmp_path / "proc", tmp_path / "memory"
    proc.mkdir()
    groups_of_version_1.mkdir()
    (proc / "cgroup").write_text("4:memory:/\n")
    (proc / "mountinfo").write_text(f"31 23 0:28 / {groups_of_version_1} rw,relatime - cgroup cgroup rw,memory\n")
    assert place(proc) == groups_of_version_1
    assert make("me", 0, lambda _: True, proc) is None, "a plain folder has no file of processes that could be given away"
    assert list(groups_of_version_1.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ("memory.events", "low 0\nhigh 2\nmax 9\noom 1\noom_kill 0\n", "low 0\nhigh 2\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n"),
    ],
    ids=["version 1", "version 2"],
)
def test_a_group_says_whether_the_kernel_ended_a_process_of_it(tmp_path: Path, file: str, before: str, after: str) -> None:
    group = Group(str(tmp_path), "1")
    said = [group.ran_out()]
    for text in (before, after):
        (tmp_path / "1" / file).write_text(text)
        said.append(group.ran_out())
    assert said == [False, False, True]
