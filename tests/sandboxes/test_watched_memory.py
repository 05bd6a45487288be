"""Memory is watched whoever holds it, and whenever: behind a thread that has ended, and between two commands."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from patchgrad.contracts import Result, Sandboxes
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.sandboxes.linux.clock import look
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits, Task

MIB = 1 << 20
LIMITS = Limits(command_seconds=20, memory=128 * MIB, disk=32 * MIB, processes=64)
HOLDING = """
import ctypes, os, sys, threading, time
def hold():
    x = b"x" * (64 << 20)
    print("held", flush=True)
    time.sleep(60)
"""
FIRST_ENDED = """
def alone():
    while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.01)
    hold()
threading.Thread(target=alone).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""
SLEEPERS = "for _ in range(3): threading.Thread(target=time.sleep, args=(60,)).start()\n"
LATER = """
import os, sys, time
for number in range(3 if "apart" in sys.argv else 0):
    if os.fork() == 0:
        os.setsid()
        for descriptor in range(3): os.close(descriptor)
        break
else:
    if "apart" in sys.argv: sys.exit()
for wait in range(600):
    if os.path.exists("go"): break
    time.sleep(0.05)
x = b"x" * (64 << 20)
time.sleep(60)
"""
HOLDERS = {
    "its only thread": HOLDING + "hold()",
    "a second thread": HOLDING + "threading.Thread(target=hold).start(); time.sleep(60)",
    "a thread whose first has ended": HOLDING + FIRST_ENDED,
    "one of many whose first has ended": HOLDING + SLEEPERS + FIRST_ENDED,
}


@contextmanager
def running(code: str, lines: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has said so many lines."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("who", HOLDERS)
def test_memory_is_counted_whichever_thread_of_a_process_is_left(who: str) -> None:
    with running(HOLDERS[who]) as process:
        seen = look([process.pid])
        assert seen.hold(48 * MIB)
        assert not seen.hold(160 * MIB)


def test_a_process_that_ends_while_it_is_counted_holds_nothing() -> None:
    with running(HOLDERS["its only thread"]) as process:
        seen = look([process.pid])
        process.kill()
        process.wait()
        assert not seen.hold(48 * MIB)


def test_a_process_that_has_ended_and_is_not_waited_for_holds_nothing() -> None:
    with running(HOLDERS["its only thread"]) as process:
        seen = look([process.pid])
        process.kill()
        assert process.stdout is not None
        process.stdout.read()  # its end is there when it has closed its files, which is after it has let go of its memory
        assert not seen.hold(48 * MIB)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def boxes(runner: asyncio.Runner, request: pytest.FixtureRequest) -> Iterator[Sandboxes]:
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if request.param == "landlock" and version() < NEEDED:
        pytest.skip("this kernel's Landlock keeps no signals in")
    made = BwrapSandboxes(cells=1) if request.param == "bwrap" else LandlockSandboxes(cells=1)
    yield made
    runner.run(made.close())


@pytest.fixture
def task(tmp_path: Path) -> Task:
    files = {"first_ended.py": HOLDERS["a thread whose first has ended"], "only.py": HOLDERS["its only thread"], "later.py": LATER}
    return a_task("hoard", repository=a_repository(tmp_path, files), limits=LIMITS)


def living(mark: str) -> int:
    """How many processes of this host have this word among theirs."""
    found = 0
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += mark.encode() in process.read_bytes().split(b"\0")
    return found


def test_a_command_whose_processes_hide_behind_an_ended_thread_is_out_of_memory(
    boxes: Sandboxes, runner: asyncio.Runner, task: Task
) -> None:
    async def tried() -> Result:
        async with await boxes.open(task) as sandbox:
            return await sandbox.run("for i in 1 2 3; do python first_ended.py & done; sleep 15")

    assert runner.run(tried()).state == "out of memory"


@pytest.mark.parametrize(
    "started",
    ["for i in 1 2 3; do python later.py MARK & done 2>/dev/null; true", "python later.py MARK apart"],
    ids=["jobs of the shell", "processes that leave their parent"],
)
def test_what_a_command_has_left_behind_is_ended_when_it_holds_too_much_before_the_next(
    boxes: Sandboxes, runner: asyncio.Runner, task: Task, started: str
) -> None:
    mark = f"mark-{uuid4().hex}"

    async def tried() -> tuple[Result, Result, Result]:
        async with await boxes.open(task) as sandbox:
            first = await sandbox.run(f"export KEPT=1; {started.replace('MARK', mark)}")
            async with asyncio.timeout(30):
                while living(mark) < 3:  # a command ends before its jobs have become the programs that they run
                    await asyncio.sleep(0.05)
            await sandbox.write("/testbed/go", b"")
            async with asyncio.timeout(30):
                while living(mark):
                    await asyncio.sleep(0.05)
            return first, await sandbox.run("pwd; echo $KEPT"), await sandbox.run("echo alive")

    first, told, then = runner.run(tried())
    assert first.state == told.state == then.state == "ok"
    assert "out of memory" in told.output
    assert told.output.endswith("/testbed\n\n")
    assert then.output == "alive\n"


def test_what_a_command_has_left_behind_goes_on_while_it_holds_little(boxes: Sandboxes, runner: asyncio.Runner, task: Task) -> None:
    async def tried() -> Result:
        async with await boxes.open(task) as sandbox:
            await sandbox.run("export KEPT=1; (while ! [ -e go ]; do sleep 0.05; done; echo done > said) & sleep 60 &")
            await asyncio.sleep(0.3)  # some looks
            await sandbox.write("/testbed/go", b"")
            return await sandbox.run("while ! [ -e said ]; do sleep 0.05; done; cat said; echo $KEPT")

    assert runner.run(tried()).output == "done\n1\n"
