"""The bubblewrap backend where it differs from the contract: warm pytest, states, archives, concurrency, and the end of it all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from tests.sandboxes.archives import layer

from patchgrad.contracts import Sandbox, patience
from patchgrad.errors import MissingDependency, SandboxFault, TaskError
from patchgrad.rollouts.repository import commit, difference
from patchgrad.sandboxes.bwrap import BwrapSandboxes, cgroups
from patchgrad.sandboxes.linux.children import Output
from patchgrad.sandboxes.linux.frames import Reader, pack
from patchgrad.tasks.archive import store
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits, Repository, Snapshot, Task, digest

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SUITE = {
    "shop/__init__.py": "",
    "shop/cart.py": "def total(prices):\n    return sum(prices)\n",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef prices():\n    return [1, 2]\n",
    "tests/test_cart.py": """
        import os, random, sys, unittest, warnings
        import pytest
        from shop.cart import total

        def test_total(prices): assert total(prices) == 3
        def test_wrong(prices): assert total(prices) == 4
        @pytest.mark.parametrize("n", [1, 2])
        def test_each(n, tmp_path, capsys, monkeypatch):
            monkeypatch.setenv("N", str(n)); print(n); assert capsys.readouterr().out == f"{n}\\n"
        @pytest.mark.skip(reason="not now")
        def test_skipped(): raise RuntimeError
        @pytest.mark.xfail
        def test_expected(): assert 0
        def test_error(missing_fixture): pass
        def test_warns(): warnings.warn("old", DeprecationWarning)
        def test_hash(): assert hash("a") == hash("a") and sys.flags.hash_randomization == 0
        def test_main(): assert sys.modules["__main__"] is not None and sys.argv[0].endswith(("pytest", "__main__.py"))
        class TestOld(unittest.TestCase):
            def setUp(self): self.x = 1
            def test_x(self): self.assertEqual(self.x, 1)
    """,
    "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
}
COLD = {"pytest": "/opt/python/bin/python3.11 /run/cell/lib/pytest_cold.py", "python -m pytest": "/opt/python/bin/python3.11 -m pytest"}


def small(folder: Path, files: Mapping[str, str], **changes: Any) -> Task:
    """A task of these files, dedented."""
    return a_task(repository=a_repository(folder, {name: textwrap.dedent(text) for name, text in files.items()}), **changes)


def within(task: Task, steps: Callable[[Sandbox], Awaitable[None]], cells: int = 1) -> None:
    """Runs `steps` in one sandbox of a backend of its own."""

    async def run() -> None:
        backend = BwrapSandboxes(cells)
        try:
            sandbox = await backend.open(task)
            await steps(sandbox)
            await sandbox.close()
        finally:
            await backend.close()

    asyncio.run(run())


def _verdicts(output: str) -> list[str]:
    """The lines of a report without times."""
    return [re.sub(r" in [0-9.]+s", "", line) for line in output.splitlines() if "cachedir" not in line]


def test_a_warm_run_of_pytest_says_what_a_cold_one_says(tmp_path: Path) -> None:
    task = small(tmp_path, SUITE)

    async def steps(sandbox: Sandbox) -> None:
        for warm, cold in COLD.items():
            for arguments in (
                "-rA",
                "-q tests",
                "tests/test_cart.py::test_each -v",
                "-k wrong -x --lf",
                "--no-such-option",
                "-p no:capture -h",
            ):
                first, second = await sandbox.run(f"{warm} {arguments}"), await sandbox.run(f"{cold} {arguments}")
                assert first.exit_code == second.exit_code, arguments
                assert _verdicts(first.output) == _verdicts(second.output), arguments
            code = "import os;print(os.getppid())"
            assert (await sandbox.run(f'python -c "{code}"')).exit_code == 0
        assert not (await sandbox.snapshot()).entries, "a test run leaves nothing in the repository"

    within(task, steps)


def test_a_warm_run_uses_the_caller_s_folder_pipes_variables_and_is_really_warm(tmp_path: Path) -> None:
    report = "'PARENT', os.getppid(), os.environ.get('WORD'), os.getcwd(), os.path.exists('/proc/1/fd')"
    probe = f"import os\ndef test_it():\n    print({report})\n    assert 0\n"
    task = small(tmp_path, {"a/test_probe.py": probe})

    async def steps(sandbox: Sandbox) -> None:
        result = await sandbox.run("cd a; { echo first; WORD=given pytest -q | grep ^PARENT; echo last; } > out; cat out; rm out")
        assert result.output.split("\n")[:3] == ["first", "PARENT 1 given /testbed/a True", "last"]
        assert "PARENT 1 None" in (await sandbox.run("timeout 60 python -m pytest -q")).output
        assert "PARENT 1 None" not in (await sandbox.run("PYTHONHASHSEED=1 pytest -q")).output
        assert "PARENT 1 None" not in (await sandbox.run("touch random.py; pytest -q; rm random.py")).output
        assert (await sandbox.run("timeout 0.01 pytest; echo $?")).output.strip().endswith("124")
        both = await sandbox.run("pytest -q > one & pytest -q > two & wait; tail -qn1 one two | cut -d' ' -f1,2; rm one two")
        assert both.output == "1 failed\n1 failed\n"
        reported = await sandbox.exec(("pytest", "-q"), env={"WORD": "exec"})
        assert "PARENT 1 exec /testbed" in reported.output

    within(task, steps)


def test_pytest_inside_pytest_and_a_crash_are_served(tmp_path: Path) -> None:
    nested = "import subprocess\ndef test_inner():\n    assert subprocess.run(['pytest', '-q', 'inner']).returncode == 0\n"
    crash = "import os, signal\ndef test_crash():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    task = small(tmp_path, {"test_outer.py": nested, "inner/test_x.py": "def test_x(): pass\n", "crash/test_c.py": crash})

    async def steps(sandbox: Sandbox) -> None:
        assert (await sandbox.run("pytest -q test_outer.py")).exit_code == 0
        assert (await sandbox.run("pytest -q crash")).exit_code == 128 + signal.SIGSEGV
        assert (await sandbox.exec(("pytest", "-q", "crash"))).exit_code == 128 + signal.SIGSEGV
        assert (await sandbox.run("pytest -q inner")).exit_code == 0

    within(task, steps)


@pytest.mark.parametrize(
    ("commands", "script"),
    [
        (("export A=1", "export B=2"), 'declare -x A="1"\ndeclare -x B="2"\n'),
        (("ls", "/bin/true", "B=2"), 'declare -- B="2"\n'),
        (("sleep 9", "B=2"), 'declare -- B="2"\n'),  # the shell that was asked first is gone
        (("exit 3", "B=2"), 'declare -- B="2"\n'),
        ((f": <<'END'\n{'x' * 400_000}\nEND", "B=2"), 'declare -- B="2"\n'),
        (("while :; do A=1; break; done; continue", "unset A; B=2"), 'declare -- B="2"\n'),
    ],
    ids=["changed at once", "asked late", "ran out of time", "ended", "a long command", "loops"],
)
def test_what_an_agent_made_of_its_shell_is_told_whichever_command_came_first(
    commands: tuple[str, ...], script: str, tmp_path: Path
) -> None:
    async def steps(sandbox: Sandbox) -> None:
        for command in commands:
            await sandbox.run(command)
        state = await sandbox.snapshot()
        assert state.shell == script
        await sandbox.run("C=3")
        assert (await sandbox.snapshot()).shell == f'{script}declare -- C="3"\n'

    within(dataclasses.replace(small(tmp_path, {"a": "b"}), limits=Limits(command_seconds=1)), steps)


def test_a_state_covers_links_modes_deletions_and_git(tmp_path: Path) -> None:
    task = small(tmp_path, {"a/b/c.txt": "c", "a/d.txt": "d", "e.txt": "e"})

    async def run() -> None:
        backend = BwrapSandboxes(2)
        one = await backend.open(task)
        start = await one.snapshot()
        assert start == Snapshot(digest(), {}, "/testbed")
        await one.run("touch e.txt; git status; git diff")
        assert (await one.snapshot()).address == digest(), "a look is no change"
        await one.run("rm -r a; mkdir a; echo new > a/new; ln -s /etc/passwd link; rm e.txt; mkdir e.txt; echo x > e.txt/x; mkfifo p")
        await one.run("echo staged > s; git add s; git commit -qm one; echo more > t; git add t; chmod 700 a")
        state = await one.snapshot()
        assert state.entries["a/b"] == (0, None)
        assert state.entries["link"][1] == b"/etc/passwd"
        assert "p" not in state.entries
        two = await backend.open(task, state)
        assert (await two.snapshot()).address == state.address
        for command in (
            "git log --oneline; git status --short; git diff HEAD",
            "find . -path ./.git -prune -o -printf '%P %y %m\\n' | sort",
        ):
            ours, theirs = (await one.run("rm -f p;" + command)).output, (await two.run(command)).output
            assert ours == theirs
        await two.close()
        hostile = Snapshot("", {"x": (0o120777, b"/tmp"), "x/y": (0o100644, b"")})
        with pytest.raises(SandboxFault, match="symbolic links"):
            await backend.open(task, hostile)
        await one.close()
        await backend.close()

    asyncio.run(run())


def test_all_of_an_archive_is_in_the_first_commit_also_what_its_own_rules_ignore(tmp_path: Path) -> None:
    task = small(tmp_path, {".gitignore": "lib/\n*.cfg\n", "lib/box.py": "A = 1\n", "a.cfg": "x\n"})

    async def steps(sandbox: Sandbox) -> None:
        assert (await sandbox.run("git ls-files")).output.split() == [".gitignore", "a.cfg", "lib/box.py"]
        base = await commit(sandbox)
        await sandbox.run("echo 'A = 2' > lib/box.py; echo 1 > lib/new.py")
        patch = await difference(sandbox, base)
        assert [line for line in patch.splitlines() if line.startswith("diff")] == ["diff --git a/lib/box.py b/lib/box.py"]

    within(task, steps)


def test_what_is_wrong_with_an_archive_is_said_in_a_sentence(tmp_path: Path) -> None:
    task = small(tmp_path, {"a": "a"})
    broken = dataclasses.replace(task.repository, digest="0" * 64)
    (tmp_path / "junk").write_bytes(b"junk" * 1000)
    junk = Repository("archive", str(tmp_path / "junk"), hashlib.sha256(b"junk" * 1000).hexdigest())
    escaping = store(tmp_path, layer({"../out": "x"}))
    cases = {
        "SHA-256": dataclasses.replace(task, repository=broken),
        "cannot be unpacked": dataclasses.replace(task, repository=junk),
        "outside": dataclasses.replace(task, repository=escaping),
        "cannot be read": dataclasses.replace(task, repository=dataclasses.replace(broken, location="/nowhere")),
        "kind 'git'": dataclasses.replace(task, repository=Repository("git", "x", "y")),
        "set-up command failed: 'false'": small(tmp_path, {"a": "a"}, setup=("false",)),
    }

    async def run() -> None:
        backend = BwrapSandboxes(1)
        for words, case in cases.items():
            with pytest.raises(TaskError, match=re.escape(words)):
                await backend.open(case)
        good = await backend.open(small(tmp_path, {"a": "a"}, setup=("echo built > b",)))
        assert (await good.run("cat b; git status --short")).output == "built\n"
        await backend.close()

    asyncio.run(run())


def test_a_set_up_command_that_somebody_kills_is_no_fault_of_the_task(tmp_path: Path) -> None:
    async def run() -> None:
        backend = BwrapSandboxes(1)
        killed = small(tmp_path, {"a": "a"}, setup=("kill -9 $$",))
        with pytest.raises(SandboxFault, match=re.escape("a set-up command was killed: 'kill -9 $$'")):
            await backend.open(killed)
        await (await backend.open(small(tmp_path, {"a": "a"}))).close()
        await backend.close()

    asyncio.run(run())


async def _settled(nest: int) -> tuple[int, int, int]:
    """The footprint when cells that were booted in the place of others have been born."""
    seen = _footprint(nest)
    for _ in range(50):
        await asyncio.sleep(0.2)
        before, seen = seen, _footprint(nest)
        if seen == before:
            break
    return seen


def test_two_hundred_episodes_leave_nothing_behind(tmp_path: Path) -> None:
    task = small(tmp_path, {"test_a.py": "def test_a(): pass\n"})

    async def episode(backend: BwrapSandboxes, number: int) -> None:
        sandbox = await backend.open(task)
        try:
            result = await sandbox.run(f"ls /tmp; ls; echo {number} > mine; (sleep 99 &); cat mine")
            assert result.output == f"home\ntest_a.py\n{number}\n"
            if number % 20 == 0:
                assert (await sandbox.run("pytest -q")).exit_code == 0
            if number % 50 == 1:
                assert (await sandbox.run("sleep 99", 0.2)).state == "timeout"
        finally:
            await sandbox.close()

    async def run() -> None:
        backend = BwrapSandboxes(4)
        gate = asyncio.Semaphore(16)

        async def one(number: int) -> None:
            async with gate:
                await episode(backend, number)

        for sandbox in await asyncio.gather(*(backend.open(task) for _ in range(4))):
            await sandbox.close()
        nest = backend._links[0]._process.pid
        before = await _settled(nest)
        await asyncio.gather(*(one(number) for number in range(200)))
        assert await _settled(nest) == before, "descriptors, mounts and processes are as many as before"
        await backend.close()

    asyncio.run(run())


def _footprint(nest: int) -> tuple[int, int, int]:
    descriptors = len(os.listdir(f"/proc/{nest}/fd"))
    mounts = len(Path(f"/proc/{nest}/mountinfo").read_text().splitlines())
    return descriptors, mounts, len(_family(nest))


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                found += [int(word) for word in task.read_text().split()]
    return found


def test_a_command_that_is_given_up_does_not_hold_the_cell(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sandbox.run("sleep 30", 30), 0.3)

    start = time.monotonic()
    within(small(tmp_path, {"a": "a"}), steps)
    assert time.monotonic() - start < 20


def test_a_cell_that_died_is_a_fault_and_the_next_sandbox_is_whole(tmp_path: Path) -> None:
    task = small(tmp_path, {"a": "a"})

    async def run() -> None:
        backend = BwrapSandboxes(2)
        sandbox, idle = await backend.open(task), await backend.open(task)
        await idle.close()
        for pid in _family(backend._links[0]._process.pid)[1:]:
            with suppress(ProcessLookupError):  # it has ended with the one before
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxFault):
            await sandbox.run("true")
        await sandbox.close()
        fresh = await backend.open(task)
        assert (await fresh.run("cat a")).output == "a"
        os.kill(backend._links[0]._process.pid, signal.SIGKILL)
        with pytest.raises(SandboxFault):
            await fresh.run("true")
        await fresh.close()
        after = await backend.open(task)
        assert (await after.run("cat a")).output == "a", "a nest that was killed is replaced"
        await after.close()
        await backend.close()

    asyncio.run(run())


CRAMPED = """
import json, os, socket, sys
from patchgrad.sandboxes.bwrap import zygote
from patchgrad.sandboxes.linux.frames import Reader
def no_room():
    raise BlockingIOError(11, "Resource temporarily unavailable")
zygote.os.fork, zygote.system.join, zygote.system.unshare = no_room, lambda *_: None, lambda *_: None
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
heard = []
for _ in range(2):
    answer, control = socket.socketpair()
    socket.send_fds(ours, [json.dumps({"places": {}}).encode()], [control.fileno()])
    heard.append(answer)
    control.close()
ours.shutdown(socket.SHUT_WR)
zygote.Zygote(theirs, b"", {}).serve()
print([Reader().feed(answer.recv(1000))[0][0] for answer in heard])
"""


def test_a_zygote_without_room_for_a_process_says_so_and_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", CRAMPED], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.count("Resource temporarily unavailable") == 2, done.stdout


@pytest.mark.parametrize("asked", [False, True], ids=["before", "after"])
def test_a_warm_zygote_that_ends_leaves_the_first_to_fork(tmp_path: Path, asked: bool) -> None:
    """It may end before it is asked for a cell, and after."""
    task = small(tmp_path, {"a": "a"})

    async def run() -> None:
        backend = BwrapSandboxes(3, warm=True)
        sandbox = await backend.open(task)
        warm = _family(backend._links[0]._process.pid)[3]  # below the nest, bubblewrap and the first zygote
        os.kill(warm, signal.SIGSTOP if asked else signal.SIGKILL)
        assert (await sandbox.run("cat a")).output == "a", "who lives does not need it"
        opening = asyncio.ensure_future(backend.open(task))
        if asked:
            assert not (await asyncio.wait([opening], timeout=0.2))[0], "the order waits for a zygote that is stopped"
            os.kill(warm, signal.SIGKILL)
        async with await opening as second:
            assert (await second.run("cat a")).output == "a"
        await sandbox.close()
        await backend.close()

    asyncio.run(run())


def test_a_nest_ends_in_silence_when_its_trainer_leaves_with_answers_unread(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    task = small(tmp_path, {"a": "a"})

    async def run() -> None:
        backend = BwrapSandboxes(8)
        boxes = [await backend.open(task) for _ in range(8)]
        link = backend._links[0]
        cast(asyncio.Transport, link._writer.transport).pause_reading()
        for sandbox in boxes:
            request = {"id": 1000 + sandbox._number, "op": "run", "sandbox": sandbox._number, "timeout": 5.0}
            link._writer.write(pack(request, b"seq 1 50"))
        await link._writer.drain()
        await asyncio.sleep(1.0)  # the answers lie in the socket, unread
        link._writer.transport.abort()
        assert await asyncio.to_thread(link._process.wait, 20) == 0
        await backend.close()

    asyncio.run(run())
    assert "Traceback" not in capfd.readouterr().err


def test_a_nest_that_cannot_be_written_to_is_gone_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        backend = BwrapSandboxes(1)
        await (await backend.open(small(tmp_path, {"a": "a"}))).close()
        link = backend._links[0]
        link._writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
        with pytest.raises(SandboxFault, match="gone"):
            await link.ask({"op": "close", "sandbox": 99}, b"", 5)
        assert link.gone
        await backend.close()

    asyncio.run(run())


def test_nothing_survives_a_trainer_that_is_killed(tmp_path: Path) -> None:
    task = small(tmp_path, {"a": "a"})
    code = f"""
import asyncio
import contextlib
from patchgrad.sandboxes.bwrap import BwrapSandboxes, cgroups
from patchgrad.values import *
async def main():
    backend = BwrapSandboxes(2)
    sandbox = await backend.open(Task("t", "", {task.repository!r}, Checks((), ())))
    await sandbox.run("(sleep 77 &)")
    print(backend._links[0]._process.pid, flush=True)
    await sandbox.run("sleep 60", 100)
asyncio.run(main())
"""
    trainer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    nest = int(trainer.stdout.readline())
    family = _family(nest)
    assert len(family) >= 4
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_alive(pid) for pid in family):
        time.sleep(0.05)
    assert not [pid for pid in family if _alive(pid)]
    assert "patchgrad" not in Path("/proc/mounts").read_text()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_host_without_bubblewrap_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match="apt-get install bubblewrap"):
        BwrapSandboxes(1).probe()
    with pytest.raises(MissingDependency, match="apt-get install bubblewrap"):
        asyncio.run(BwrapSandboxes(1).open(small(tmp_path, {"a": "a"})))


def test_output_keeps_its_head_and_its_tail() -> None:
    output = Output(10)
    for _ in range(100):
        output.add(b"0123456789")
    text, cut = output.take()
    assert cut
    assert text == b"01234\n[... 990 bytes cut ...]\n56789"


def test_frames_arrive_whole_however_they_are_split() -> None:
    stream = pack({"a": "\udc80"}, b"x" * 10) + pack({}, b"")
    reader, found = Reader(), []
    for at in range(len(stream)):
        found += reader.feed(stream[at : at + 1])
    assert found == [({"a": "\udc80"}, b"x" * 10), ({}, b"")]
    with pytest.raises(ValueError, match="larger"):
        Reader().feed(b"\xff" * 8)


def test_a_small_disk_is_full_and_says_so(tmp_path: Path) -> None:
    task = small(tmp_path, {"a": "a"}, limits=Limits(disk=4 << 20))

    async def steps(sandbox: Sandbox) -> None:
        full = await sandbox.run("for i in 1 2 3; do head -c 3000000 /dev/zero > /tmp/$i; done; head -c 3000000 /dev/zero > x")
        assert "No space left" in full.output
        with pytest.raises(OSError, match="No space left"):
            await sandbox.write("y", b"y" * 3_000_000)

    within(task, steps)


def test_pytest_stays_warm_in_a_background_job_whose_shell_ignores_interrupts(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        ignored = (await sandbox.run("grep SigIgn /proc/self/status")).output.split()[1]
        assert not int(ignored, 16) & (1 << (signal.SIGQUIT - 1) | 1 << (signal.SIGHUP - 1))

    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGQUIT, signal.SIGHUP)}
    try:
        within(small(tmp_path, SUITE), steps)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


BUSY = "import time\nwhile time.process_time() < {0}: pass\nprint('done')"


def test_a_limit_counts_work_and_sleep_and_not_the_wait_for_a_core(tmp_path: Path) -> None:
    hog = [sys.executable, "-c", BUSY.format(60)]  # each a session of its own, since the scheduler is fair among sessions
    hogs = [subprocess.Popen(hog, start_new_session=True) for _ in range(4 * len(os.sched_getaffinity(0)))]

    async def steps(sandbox: Sandbox) -> None:
        done = await sandbox.exec(["python", "-c", BUSY.format(0.5)], 1.0)
        assert (done.state, done.output) == ("ok", "done\n")
        assert done.seconds > 1.0
        assert 0.45 <= done.cpu < 1.0
        in_shell = await sandbox.run(f'python -c "{BUSY.format(0.5)}"', 1.0)
        assert (in_shell.state, in_shell.output) == ("ok", "done\n")
        assert 0.45 <= in_shell.cpu < 1.0
        assert (await sandbox.run(f'python -c "{BUSY.format(60)}"', 0.5)).state == "timeout"
        asleep = await sandbox.run("sleep 60", 0.5)
        assert asleep.state == "timeout"
        assert asleep.seconds < 5.0
        assert asleep.cpu < 0.4

    try:
        within(small(tmp_path, {"a": ""}), steps)
    finally:
        for busy in hogs:
            busy.kill()
            busy.wait()


def test_work_in_processes_too_short_to_be_seen_ends_as_well(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        unseen = "trap '' CHLD; while :; do /bin/true; done"  # each ends before it is looked at, and nobody waits for it
        ended = await asyncio.wait_for(sandbox.run(unseen, 0.5), patience(0.5) + 5)
        assert ended.state == "timeout"

    within(small(tmp_path, {"a": ""}), steps)


@pytest.mark.parametrize("warm", [False, True])
def test_cells_made_ahead_or_for_a_recipe_have_pytest_loaded(tmp_path: Path, warm: bool) -> None:
    async def steps() -> None:
        boxes = BwrapSandboxes(cells=70, warm=warm)  # two nests
        if not warm:
            await boxes.prepare(4)
        task = small(tmp_path, {"test_a.py": "def test_a(): pass\n"})
        async with await boxes.open(task) as first:
            assert (await first.run("pytest -q; ls -A /tmp /tmp/home /testbed")).output.endswith(
                "/testbed:\n.git\ntest_a.py\n\n/tmp:\n.pytest_cache\nhome\n\n/tmp/home:\n"
            )
            warden = (await first.run("cat /proc/1/stat")).output.split()
            assert int(warden[13]) + int(warden[14]) < 10, "pytest was loaded before the cell was born: it takes 50 hundredths and more"
        await boxes.close()

    asyncio.run(steps())


def test_loading_pytest_at_the_first_call_leaves_nothing_in_the_agent_s_folders(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        assert (await sandbox.run("pytest -q -p no:cacheprovider")).exit_code == 0
        assert (await sandbox.run("ls -A /tmp /tmp/home /dev/shm /testbed")).output.split() == [
            *("/dev/shm:", "/testbed:", ".git", "test_a.py", "/tmp:", "home", "/tmp/home:")
        ]

    within(small(tmp_path, {"test_a.py": "def test_a(): pass\n"}), steps)


TRAINER = """
import asyncio, signal, sys
from pathlib import Path
from patchgrad.sandboxes.bwrap import BwrapSandboxes, cgroups
from patchgrad.values import Checks, Repository, Task
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored by whoever runs in the background of a shell
async def main():
    boxes = BwrapSandboxes(cells=3)
    task = Task("t", "", Repository("archive", sys.argv[1], sys.argv[2]), Checks((), ()))
    held = [await boxes.open(task) for _ in range(3)]
    for box in held:
        await box.run("(setsid sleep 4321 &); sleep 4321 & echo x > /tmp/x")
    print(boxes._links[0]._process.pid, flush=True)
    if sys.argv[3] == "0":
        await boxes.close()
        return
    await held[0].run("sleep 4321", 60)
asyncio.run(main())
"""


@pytest.mark.parametrize("end", [0, signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["by itself", "Ctrl-C", "TERM", "KILL"])
def test_nothing_is_left_of_a_trainer_however_it_ends(tmp_path: Path, end: int) -> None:
    task = small(tmp_path, {"a": "a"})
    repository = task.repository
    mounts, own = Path("/proc/self/mountinfo").read_text().count("/testbed"), tempfile.mkdtemp(prefix="trainer-")  # sockets want it short
    arguments = [sys.executable, "-c", TRAINER, repository.location, repository.digest, str(int(end))]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | {"TMPDIR": own})
    assert process.stdout is not None
    family = _family(int(process.stdout.readline()))
    if end:
        assert len(family) > 9, "three cells, each with a warden, a shell and sleepers"
        time.sleep(0.3)
        process.send_signal(end)
    process.wait(60)
    process.stdout.close()
    deadline = time.monotonic() + 20
    while (left := [pid for pid in family if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    assert Path("/proc/self/mountinfo").read_text().count("/testbed") == mounts
    assert os.listdir(own) == []
    os.rmdir(own)
    if (place := cgroups.place()) is not None:  # whoever starts next sweeps what a killed one could not

        async def steps(_: Sandbox) -> None:
            assert [group for group in place.glob(f"{cgroups.PREFIX}*") if f".{process.pid}." in group.name] == []

        within(task, steps)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SEARCH = r"""
import re, sys

def test_memory():
    found, memory = set(), open("/proc/self/mem", "rb", 0)
    for line in open("/proc/self/maps"):
        fields = line.split()
        if "w" not in fields[1]:
            continue
        first, last = (int(value, 16) for value in fields[0].split("-"))
        try:
            memory.seek(first)
            found |= set(re.findall(rb"secret-of-[a-z]+-[0-9]{6}", memory.read(last - first)))
        except (OSError, ValueError):
            continue
    frame = sys._getframe()
    while frame:
        told = [repr(value).encode() for name, value in frame.f_locals.items() if name != "found"]
        found |= {word for text in told for word in re.findall(rb"secret-of-[a-z]+-[0-9]{6}", text)}
        frame = frame.f_back
    open("/tmp/found", "w").write(repr(sorted(found)))
"""


@pytest.mark.parametrize("warm", [True, False])
def test_a_warm_pytest_s_memory_holds_nothing_of_others_and_not_its_own_input(tmp_path: Path, warm: bool) -> None:
    first = small(tmp_path, {"a.py": "x = 1\n"}, setup=("echo secret-of-setup-123456",))
    second = small(tmp_path, {"b.py": "x = 2\n"}, setup=("echo secret-of-setup-654321",))

    async def look() -> None:
        boxes = BwrapSandboxes(2, warm=warm)
        try:
            async with await boxes.open(first) as grading:
                await grading.exec(["cat"], stdin=b"secret-of-stdin-123456\n")
                await grading.exec(["bash", "-c", "echo secret-of-report-123456 >&3"])
                await grading.run("echo secret-of-command-123456; pytest --version")
            for task in (first, second):
                async with await boxes.open(task) as agent:
                    await agent.write("/tmp/x/test_memory.py", SEARCH.encode())
                    done = await agent.exec(["python", "-m", "pytest", "-q", "/tmp/x/test_memory.py"], stdin=b"secret-of-key-123456\n")
                    assert "1 passed" in done.output, done.output
                    assert await agent.read("/tmp/found") == b"[]"
                    assert "1 passed" in (await agent.run("pytest -q /tmp/x/test_memory.py")).output
                    assert await agent.read("/tmp/found") == b"[]"
        finally:
            await boxes.close()

    asyncio.run(look())
