"""What sandboxes share of a kernel, and a neighbour that has all of it while another one takes what it can get."""

from __future__ import annotations

import asyncio
import platform
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgrad.contracts import Sandbox
from patchgrad.errors import SandboxLost
from patchgrad.sandboxes.bwrap import BwrapSandboxes, cgroups
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits, Task

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

LIMITS = Limits(command_seconds=20, memory=256 << 20, disk=32 << 20, processes=64)
SETUP, CREATE, QUEUE, FCNTL = (206, 222, 129, 72) if platform.machine() == "x86_64" else (0, 107, 138, 25)
BEGIN = """
import ctypes, errno, fcntl, os, signal, struct, time
libc = ctypes.CDLL(None, use_errno=True)
def said(result): return errno.errorcode[ctypes.get_errno()] if result < 0 else "ok"
def tried(call):
    try: call()
    except OSError as error: return errno.errorcode[error.errno]
    return "ok"
"""
TIMERS = f"""
n = 0
while n < 5000 and libc.syscall({CREATE}, 1, b"\\0" * 8 + struct.pack("ii", 0, 1) + b"\\0" * 48, ctypes.byref(ctypes.c_int())) == 0: n += 1
"""
SIGNALS = f"""
n, info = 0, struct.pack("iii", 40, 0, -1).ljust(128, b"\\0")
signal.pthread_sigmask(signal.SIG_BLOCK, {{40}})
while n < 5000 and libc.syscall({QUEUE}, os.getpid(), 40, info) == 0: n += 1
"""
TERMINALS = """
n = 0
try:
    while n < 2000: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY); n += 1
except OSError: pass
"""
REFUSED = {
    "a lease to write": ("tried(lambda: fcntl.fcntl(os.open('/usr/bin/git', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK))", "EPERM"),
    "a lease to read": ("tried(lambda: fcntl.fcntl(os.open('/etc/passwd', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK))", "EPERM"),
    "a lease on one's own file": ("tried(lambda: fcntl.fcntl(os.open('/tmp/f', os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_WRLCK))", "EPERM"),
    "a lease with high bits in the command": (
        f"said(libc.syscall({FCNTL}, os.open('/usr/bin/git', os.O_RDONLY), ctypes.c_long(1 << 32 | 1024), ctypes.c_long(1)))",
        "EPERM",
    ),
    "a delegation of a folder": ("tried(lambda: fcntl.fcntl(os.open('/usr/bin', os.O_RDONLY), 1040, bytes(16)))", "EPERM"),
    "notes of a folder": ("tried(lambda: fcntl.fcntl(os.open('/usr/bin', os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS))", "EPERM"),
    "a watch of files": ("said(libc.inotify_init())", "ENOSYS"),
    "a watch of files by the newer call": ("said(libc.inotify_init1(0))", "ENOSYS"),
    "a watch of a whole file system": ("said(libc.fanotify_init(0x200, 0))", "EPERM"),
    "requests of the kernel": (f"said(libc.syscall({SETUP}, 10, ctypes.byref(ctypes.c_ulong())))", "ENOSYS"),
    "a larger pipe": ("tried(lambda: fcntl.fcntl(os.pipe()[1], 1031, 65537))", "EPERM"),
}
ALLOWED = {
    "a smaller pipe": "tried(lambda: fcntl.fcntl(os.pipe()[1], 1031, 4096))",
    "a pipe as it is": "tried(lambda: fcntl.fcntl(os.pipe()[1], 1031, 65536))",
    "a lock on a file of its own": "tried(lambda: fcntl.flock(os.open('/tmp/lock', os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX))",
    "flags of a descriptor": "tried(lambda: fcntl.fcntl(0, fcntl.F_SETFD, fcntl.FD_CLOEXEC))",
}


def python(*parts: str) -> str:
    """A command that runs a program of these parts."""
    return "python - <<'END'\n" + "\n".join((BEGIN, *parts)) + "\nEND"


class Pair:
    """Two sandboxes of one backend, side by side."""

    def __init__(self, folder: Path) -> None:
        self.task: Task = a_task("x", repository=a_repository(folder, {"a.py": "x = 1\n"}), limits=LIMITS)
        self.runner, self.backend = asyncio.Runner(), BwrapSandboxes(cells=2)
        self.one, self.two = (self.runner.run(self.backend.open(self.task)) for _ in range(2))

    def says(self, command: str, which: Sandbox | None = None) -> str:
        return self.runner.run((which or self.one).run(command)).output.strip()

    def close(self) -> None:
        self.runner.run(self.backend.close())
        self.runner.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"))
    yield made
    made.close()


@pytest.mark.parametrize("name", REFUSED)
def test_what_reaches_a_neighbour_through_shared_files_or_shared_counts_is_refused(pair: Pair, name: str) -> None:
    code, says = REFUSED[name]
    assert pair.says(python(f"print({code})")) == says


@pytest.mark.parametrize("name", ALLOWED)
def test_what_reaches_nobody_is_allowed(pair: Pair, name: str) -> None:
    assert pair.says(python(f"print({ALLOWED[name]})")) == "ok"


@pytest.mark.parametrize(("program", "most"), [(TIMERS, 1024), (SIGNALS, 1024), (TERMINALS, 32)], ids=["timers", "signals", "terminals"])
def test_who_takes_all_it_can_leaves_a_neighbour_its_own(pair: Pair, program: str, most: int) -> None:
    alone = pair.says(python(program, "print(n)"), pair.two)
    assert most - 32 < int(alone) <= most
    take = f"({python(program, 'print(n, flush=True); time.sleep(9)')}\n) > /tmp/taken & until [ -s /tmp/taken ]; do sleep 0.05; done"
    assert pair.says(f"{take}; cat /tmp/taken") == alone
    assert pair.says(python(program, "print(n)"), pair.two) == alone
    pair.runner.run(pair.one.reset())


def test_tail_follows_a_file_without_a_watch(pair: Pair) -> None:
    followed = "echo one > /tmp/log; (sleep 0.3; echo two >> /tmp/log) & timeout 3 tail -s 0.1 -f /tmp/log 2>/dev/null | head -2"
    assert pair.says(followed).split() == ["one", "two"]


def test_a_host_writes_where_the_sandbox_s_own_processes_would(pair: Pair) -> None:
    async def steps() -> None:
        for path in ("/testbed/new/a", "/tmp/new/a", "/var/tmp/new/b", "/dev/shm/new/a", "new/b"):
            await pair.one.write(path, b"seen")
            assert (await pair.one.exec(("cat", path))).output == "seen", path
            assert await pair.one.read(path) == b"seen"

    pair.runner.run(steps())


@pytest.mark.parametrize("path", ["/big", "/big/0", "/etc/passwd", "/usr/x", "/dev/x", "/var/x", "link", "up/x", "../x", "/tmp/../x"])
def test_a_write_to_anywhere_else_is_an_error_and_no_file(pair: Pair, path: str) -> None:
    async def steps() -> None:
        await pair.one.run("ln -sf /big link; ln -sfn / up")
        with pytest.raises(OSError, match="Read-only file system"):
            await pair.one.write(path, b"x")
        with pytest.raises(OSError):  # noqa: PT011  # which one depends on the path
            await pair.one.read(path)

    pair.runner.run(steps())


def test_what_the_host_writes_counts_on_the_sandbox_s_disk(pair: Pair) -> None:
    async def steps() -> None:
        for number in range(2):
            await pair.one.write(f"/dev/shm/{number}", bytes(15 << 20))
        with pytest.raises(OSError, match="No space left"):
            await pair.one.write("/tmp/last", bytes(15 << 20))
        await pair.one.reset()
        await pair.one.write("/dev/shm/after", bytes(15 << 20))

    pair.runner.run(steps())


@pytest.mark.skipif(cgroups.place() is None, reason="this user may make no memory cgroup here")
@pytest.mark.parametrize("call", ["run", "exec"])
def test_memory_that_the_kernel_holds_for_a_program_loses_its_own_sandbox_by_name(pair: Pair, call: str) -> None:
    hoard = textwrap.dedent("""
        import socket, time
        keep = []
        for _ in range(490):
            a, b = socket.socketpair(); keep += [a, b]
            a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); a.setblocking(False)
            try:
                while True: a.send(bytes(30000))
            except BlockingIOError: pass
        time.sleep(9)
    """)
    many = f"for i in 1 2 3 4; do python - <<'END' &\n{hoard}\nEND\ndone; wait"

    async def steps() -> None:
        await pair.one.close()
        async with await pair.backend.open(pair.task) as hostile:
            with pytest.raises(SandboxLost, match="memory"):
                await (hostile.run(many) if call == "run" else hostile.exec(("bash", "-c", many)))
            with pytest.raises(SandboxLost, match="memory"):
                await hostile.run("true")
        pair.one = await pair.backend.open(pair.task)

    pair.runner.run(steps())
    assert [pair.says("echo alive", box) for box in (pair.one, pair.two)] == ["alive", "alive"]
