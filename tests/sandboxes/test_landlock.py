"""The fallback without namespaces: what it keeps in, what it judges, and that it takes away what it started."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from patchgrad.contracts import Capabilities, Sandbox, Sandboxes
from patchgrad.errors import SandboxLost
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, covering, version
from patchgrad.testing.attacks import FILES, GRADER, attack_grader
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits, Snapshot, Task

pytestmark = pytest.mark.skipif(version() < NEEDED, reason="this kernel's Landlock keeps no signals in")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all tests."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module")
def boxes(runner: asyncio.Runner) -> Iterator[LandlockSandboxes]:
    """A backend for all tests: each has a copy of this Python, which takes seconds."""
    backend = LandlockSandboxes(cells=4)
    yield backend
    runner.run(backend.close())


def small(folder: Path) -> Task:
    limits = Limits(command_seconds=20.0, processes=64, memory=256 << 20)
    return a_task(repository=a_repository(folder, {"a.txt": "hello\n", "pkg/b.py": "x = 1\n"}), limits=limits)


def test_everything_below_a_folder_but_some_of_it(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True)
    top = str(tmp_path)
    assert covering(top, []) == [top]
    assert covering(top, [f"{top}/a/b"]) == [f"{top}/a/d", f"{top}/e"]
    assert covering(top, [f"{top}/a/b/c", f"{top}/e", "/elsewhere"]) == [f"{top}/a/d"]
    assert covering(top, [top]) == []


def test_what_is_outside_can_neither_be_read_nor_changed_nor_ended_nor_called(
    boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    canary.write_text("canary\n")
    sleeper = subprocess.Popen(["sleep", "600"], env={"SECRET": "secret"})

    async def steps() -> None:
        async with await boxes.open(small(tmp_path)) as one, await boxes.open(small(tmp_path)) as two:
            await two.write("other", b"another's\n")
            tries = (
                f"cat {canary}",
                f"echo changed > {canary}",
                f"rm {canary}",
                f"ls {tmp_path}",
                f"ls {Path.home()}",
                f"cat {two.home}/testbed/other",
                f"kill -9 {sleeper.pid}",
                f"kill -9 {os.getpid()}",
                f"cat /proc/{sleeper.pid}/environ",
                f"ls /proc/{os.getpid()}/root/",
                "echo x > /etc/x",
                "echo x > /dev/shm/x",
                "ls /sys",
                "cat /etc/shadow",
                "echo 1 > /proc/sys/kernel/core_pattern",
                *(["chmod 777 /usr", f"touch {canary}"] if os.geteuid() == 0 else []),
                f"ln {canary} here",
                "unshare -r true",
            )
            for command in tries:
                done = await one.run(command)
                assert (done.state, bool(done.exit_code)) == ("ok", True), f"{command}: {done}"
            for call in ("socket.create_connection(('127.0.0.1', 1), 1)", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"):
                done = await one.run(f'python -c "import socket; {call}"')
                assert "not supported" in done.output, done
            packages = await one.run("python -c 'import numpy'")
            assert "No module named" in packages.output, "what is installed beside a Python is not there to be read"
            assert (await one.run("pytest --version")).exit_code == 0

    try:
        runner.run(steps())
        assert (canary.read_text(), sleeper.poll()) == ("canary\n", None)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_tree_deeper_than_a_path_can_name_is_no_state(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def steps() -> None:
        async with await boxes.open(small(tmp_path)) as sandbox:
            await sandbox.run("n=$(printf 'n%.0s' $(seq 250)); for i in $(seq 20); do mkdir $n; cd $n; done; echo x > f; cd /testbed")
            with pytest.raises(SandboxLost, match="longer than"):
                await sandbox.snapshot()
            assert (await sandbox.run("rm -r n*; echo alive")).output == "alive\n"
            assert not (await sandbox.snapshot()).entries

    runner.run(steps())


def test_a_host_writes_where_the_sandbox_s_own_processes_would(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def steps() -> None:
        async with await boxes.open(small(tmp_path)) as sandbox:
            for path in ("/testbed/new/a", "/tmp/new/a"):
                await sandbox.write(path, b"seen")
                assert (await sandbox.exec(("cat", path))).output == "seen"
            await sandbox.run("ln -s /big link")
            for path in ("/big", "/big/0", "/etc/passwd", "link", "../x", "/tmp/../x"):
                with pytest.raises(OSError, match="Permission denied"):
                    await sandbox.write(path, b"x")
            assert sorted(os.listdir(sandbox.home)) == ["testbed", "tmp"]

    runner.run(steps())


def test_many_may_be_the_first_to_open(tmp_path: Path) -> None:
    tasks = [replace(small(tmp_path), setup=(f"echo {number} > made",)) for number in range(4)]

    async def steps() -> None:
        backend = LandlockSandboxes(cells=4)
        try:
            opened = await asyncio.gather(*(backend.open(task) for task in tasks))
            assert [(await box.run("cat made")).output for box in opened] == ["0\n", "1\n", "2\n", "3\n"]
            for box in opened:
                await box.close()
        finally:
            await backend.close()

    asyncio.run(steps())


def test_too_much_of_anything_ends_and_the_next_command_works(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def steps() -> None:
        async with await boxes.open(small(tmp_path)) as box:
            hog = await box.run("for i in 1 2 3 4 5; do python -c 'x = bytearray(80 << 20); import time; time.sleep(20)' & done; wait")
            assert (hog.state, "held more than its limit" in hog.output) == ("out of memory", True)
            many = await box.run("for i in $(seq 120); do sleep 30 & done; wait", 3.0)
            assert re.search("more processes than its limit|temporarily unavailable", many.output)
            hidden = await box.run("(setsid sh -c 'setsid sleep 4567 & setsid sleep 4567' &) ; while :; do :; done", 1.0)
            assert hidden.state == "timeout"
            assert (await box.run("pgrep -f 'sleep 456[7]'; echo next")).output == "next\n", "who hid from its group has ended too"

    runner.run(steps())


def test_paths_are_put_into_the_words_of_the_agent_and_back(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    async def steps() -> None:
        async with await boxes.open(small(tmp_path)) as box:
            assert (await box.run("cd /testbed/pkg && pwd && cat /testbed/a.txt && echo $TMPDIR")).output == "/testbed/pkg\nhello\n/tmp\n"
            assert (await box.run("echo /testbeds a/testbed /tmpx")).output == "/testbeds a/testbed /tmpx\n"
            shown = await box.run("python -c 'import b; print(b.__file__)'")
            assert shown.output == "/testbed/pkg/b.py\n"

    runner.run(steps())


def test_all_of_an_archive_is_in_the_first_commit(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    task = a_task(repository=a_repository(tmp_path, {".gitignore": "lib/\n", "lib/box.py": "A = 1\n"}))

    async def steps() -> None:
        sandbox = await boxes.open(task)
        assert (await sandbox.run("git ls-files")).output.split() == [".gitignore", "lib/box.py"]
        await sandbox.close()

    runner.run(steps())


def test_a_state_has_the_same_address_as_in_bubblewrap(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    dates = "export GIT_COMMITTER_DATE=2001-01-01T00:00:00Z GIT_AUTHOR_DATE=2001-01-01T00:00:00Z"
    work = "echo x > new; chmod 755 new; rm -r pkg; mkdir -p d/e; ln -s ../new d/link; echo y >> a.txt; git add -A; git commit -qm 1"

    async def after(backend: Sandboxes) -> Snapshot:
        async with await backend.open(small(tmp_path)) as box:
            assert (await box.run(f"{dates}; {work}")).exit_code == 0
            state = await box.snapshot()
        async with await backend.open(small(tmp_path), state) as box:
            assert (await box.snapshot()).address == state.address
        return state

    async def steps() -> None:
        other = BwrapSandboxes(cells=2)
        try:
            one, two = await after(other), await after(boxes)
        finally:
            await other.close()
        assert one.entries.keys() == two.entries.keys()
        assert {path for path in one.entries if one.entries[path] != two.entries[path]} <= {".git/COMMIT_EDITMSG", ".git/logs/HEAD"}
        assert one.entries["pkg"] == (0, None)

    runner.run(steps())


@dataclass(frozen=True)
class Lent:
    """A backend for somebody who closes what he is given, and whose owner still needs it."""

    boxes: Sandboxes

    def probe(self) -> Capabilities:
        return self.boxes.probe()

    async def open(self, task: Task, state: Snapshot | None = None) -> Sandbox:
        return await self.boxes.open(task, state)

    async def close(self) -> None:
        pass


def test_the_grader_judges_as_in_bubblewrap(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path) -> None:
    chosen = [forgery for forgery in GRADER if forgery.name in ("edits the test", "exits hard", "patches the runner", "prints a result")]
    shop = a_repository(tmp_path, FILES)
    findings = runner.run(attack_grader(lambda: Lent(boxes), shop, chosen))
    assert [finding for finding in findings if not finding.held] == []
    assert len(findings) == 4, "the honest repair was resolved"


TRAINER = """
import asyncio, sys
from pathlib import Path
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.values import Checks, Repository, Task
async def main():
    boxes = LandlockSandboxes(cells=3)
    task = Task("t", "", Repository("archive", sys.argv[1], sys.argv[2]), Checks((), ()))
    held = [await boxes.open(task) for _ in range(2)]
    for box in held:
        await box.run("(setsid sleep 7654 &); sleep 7654 & echo x")
    print("open", flush=True)
    await held[0].run("sleep 7654", 60)
asyncio.run(main())
"""


def test_nothing_runs_on_after_a_trainer_that_is_killed(tmp_path: Path) -> None:
    repository = small(tmp_path).repository
    arguments = [sys.executable, "-c", TRAINER, repository.location, repository.digest]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    assert _sleepers()
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 20
    while _sleepers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _sleepers() == ""
    left = [path for path in Path(tempfile.gettempdir()).glob("patchgrad-landlock-*") if f".{process.pid}." in path.name]
    assert len(left) == 1

    async def steps() -> None:
        backend = LandlockSandboxes(cells=1)
        async with await backend.open(small(tmp_path)):
            assert not left[0].exists(), "who starts next takes away what a killed one left"
        await backend.close()

    asyncio.run(steps())


def _sleepers() -> str:
    return subprocess.run(["pgrep", "-f", "sleep 765[4]"], capture_output=True, text=True, check=False).stdout


LEAVINGS = {
    "deep": 'python -c \'import os\nfor _ in range(1500): os.mkdir("d"); os.chdir("d")\'',
    "locked": "mkdir -p shut/in; chmod 000 shut/in shut",
    "odd names": "mkdir $'\\n' -- -rf; ln -s / out",
}


@pytest.mark.parametrize("making", LEAVINGS.values(), ids=LEAVINGS)
def test_whatever_an_agent_leaves_is_taken_away(boxes: LandlockSandboxes, runner: asyncio.Runner, tmp_path: Path, making: str) -> None:
    async def steps() -> Path:
        async with await boxes.open(small(tmp_path)) as box:
            await box.run(making)
            await box.snapshot()
            await box.reset()
            assert not (await box.snapshot()).entries
            await box.run(making)
            return box.home

    assert not runner.run(steps()).exists()
