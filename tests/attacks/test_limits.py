"""What an agent meets at its limits, beyond that it is held (`test_attacks.py`): what it is told, and what it still has."""

from __future__ import annotations

import asyncio
import shutil
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from patchgrad.contracts import Sandbox
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

LIMITS = Limits(command_seconds=20, memory=256 << 20, disk=64 << 20, processes=64)
Attack = Callable[[Callable[[Sandbox], Awaitable[None]]], None]


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    """Runs an attack in a sandbox of one shared cell, and then checks that the next episode starts clean and is served."""
    repository = a_repository(tmp_path_factory.mktemp("attack"), {"test_a.py": "def test_a(): pass\n"})
    task = a_task("attack", repository=repository, limits=LIMITS)
    loop = asyncio.new_event_loop()
    backend = BwrapSandboxes(cells=1)

    async def run(steps: Callable[[Sandbox], Awaitable[None]]) -> None:
        sandbox = await backend.open(task)
        try:
            await steps(sandbox)
            assert (await sandbox.run("echo alive", 20)).output.endswith("alive\n")
        finally:
            await sandbox.close()
        fresh = await backend.open(task)
        try:
            left = await fresh.run(
                "ls -A /testbed /tmp /dev/shm /tmp/home; ps -e --no-headers | grep -cv 'ps\\|grep\\|bash'; git status --short"
            )
            assert left.output == "/dev/shm:\n\n/testbed:\n.git\ntest_a.py\n\n/tmp:\nhome\n\n/tmp/home:\n1\n"
            assert (await fresh.run("pytest -q")).exit_code == 0
        finally:
            await fresh.close()

    yield lambda steps: loop.run_until_complete(run(steps))
    loop.run_until_complete(backend.close())
    loop.close()


def python(code: str) -> str:
    return f"python - <<'END'\n{textwrap.dedent(code)}\nEND"


def test_memory_is_bounded_for_one_process_and_for_all(attack: Attack) -> None:
    async def steps(sandbox: Sandbox) -> None:
        one = await sandbox.run("python -c 'x = bytearray(10 ** 9)'")
        assert "MemoryError" in one.output
        hog = "import time; x = bytearray(b'x') * (60 << 20); time.sleep(15)"
        many = await sandbox.run(f'for i in 1 2 3 4 5 6 7 8; do python -c "{hog}" & done; wait', 19)
        assert many.state == "out of memory"
        assert "out of memory" in many.output

    attack(steps)


def test_endless_output_is_cut_and_ended(attack: Attack) -> None:
    async def steps(sandbox: Sandbox) -> None:
        result = await sandbox.run("yes", 1)
        assert result.state == "timeout"
        assert result.truncated
        assert len(result.output) < 20_000

    attack(steps)


@pytest.mark.parametrize("command", ["kill -9 $$", "exec true", "exec sh -c 'exit 5'", "exec 0<&- 1<&- 2<&-; exit"])
def test_the_end_of_the_shell_is_only_that(attack: Attack, command: str) -> None:
    async def steps(sandbox: Sandbox) -> None:
        await sandbox.run("echo kept > kept")
        assert (await sandbox.run(command, 10)).state == "died"
        assert (await sandbox.run("cat kept")).output == "kept\n"

    attack(steps)


def test_there_is_no_network_but_a_loopback(attack: Attack) -> None:
    async def steps(sandbox: Sandbox) -> None:
        code = """
            import socket
            s = socket.socket(); s.settimeout(2)
            try: s.connect(("1.1.1.1", 53)); print("open")
            except OSError as e: print("closed", e.errno)
            for family in (17, 38, 40):
                try: socket.socket(family, socket.SOCK_DGRAM); print("open")
                except OSError as e: print("closed", e.errno)
            l = socket.create_server(("127.0.0.1", 0)); socket.create_connection(l.getsockname()); print("loopback")
        """
        output = (await sandbox.run(python(code))).output
        assert output == "closed 101\nclosed 97\nclosed 97\nclosed 97\nloopback\n"

    attack(steps)


def test_links_and_fifos_do_not_lead_the_reader_out(attack: Attack, tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        secret = tmp_path / "secret"
        secret.write_text("host")
        await sandbox.run(
            f"ln -s {secret} a; ln -s ../../../../../../..{secret} b; ln -s /proc/self/root{secret} c; mkfifo fifo;"
            "ln -s / root; ln -s loop loop; ln -s /tmp/inside d; echo inside > /tmp/inside; mkdir folder"
        )
        for path in ("a", "b", "c", "fifo", f"root{secret}", "loop", f"../..{secret}", "/etc/passwd", "/proc/self/environ"):
            with pytest.raises(OSError):  # noqa: PT011  # which one depends on the trick
                await asyncio.wait_for(sandbox.read(path), 5)
        assert await sandbox.read("d") == b"inside\n"
        await sandbox.write("root/tmp/written", b"x")
        assert (await sandbox.run("cat /tmp/written")).output == "x"
        with pytest.raises(OSError, match=r"regular file|No such device"):
            await asyncio.wait_for(sandbox.write("fifo", b"x"), 5)
        with pytest.raises(IsADirectoryError):
            await sandbox.write("folder", b"x")
        assert secret.read_text() == "host"

    attack(steps)


def test_the_original_packages_are_nowhere(attack: Attack) -> None:
    async def steps(sandbox: Sandbox) -> None:
        found = await sandbox.run("python -c 'import numpy'; python -c 'import pip'; python -c 'import patchgrad'")
        assert found.output.count("ModuleNotFoundError") == 3
        assert (await sandbox.run("cat /proc/cmdline /proc/keys; ls /root 2>&1; ls /work 2>&1; hostname")).output.endswith("testbed\n")

    attack(steps)
