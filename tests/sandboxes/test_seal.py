"""Sealed files where a backend differs from the contract: links, many folders, what was open before, and what is left afterwards."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from patchgrad.contracts import Sandbox, Sandboxes
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.sandboxes.landlock.seal import sealed
from patchgrad.testing.tasks import a_repository, a_task

FILES = {"tests/unit/test_a.py": "a\n", "tests/unit/deep/data.txt": "d\n", "tests/test_b.py": "b\n", "shop/cart.py": "c\n"}
bwrap_only = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
as_root = pytest.mark.skipif(version() < NEEDED or os.geteuid() != 0, reason="landlock seals files only where root starts it")
BACKENDS = [
    pytest.param(BwrapSandboxes, marks=bwrap_only, id="bwrap"),
    pytest.param(LandlockSandboxes, marks=as_root, id="landlock"),
]


def within(folder: Path, steps: Callable[[Sandbox], Awaitable[None]], made: Callable[[], Sandboxes] = BwrapSandboxes) -> None:
    """Runs `steps` in a sandbox that has `FILES`."""

    async def run() -> None:
        backend = made()
        try:
            async with await backend.open(a_task(repository=a_repository(folder, FILES))) as sandbox:
                await steps(sandbox)
        finally:
            await backend.close()

    asyncio.run(run())


@pytest.mark.parametrize("made", BACKENDS)
def test_a_sealed_file_is_named_in_any_way_and_sealed_again_without_harm(tmp_path: Path, made: Callable[[], Sandboxes]) -> None:
    async def steps(sandbox: Sandbox) -> None:
        for path in ("tests/unit/test_a.py", "/testbed/tests/unit/test_a.py", "tests//unit/../unit/test_a.py"):
            await sandbox.seal([path, path])
        await sandbox.seal(["tests/unit/deep/data.txt"])
        await sandbox.run("cd tests; echo x > unit/test_a.py; echo x > unit/deep/data.txt; mv unit/deep unit/e; echo x > test_b.py")
        assert (await sandbox.run("cat unit/test_a.py unit/deep/data.txt test_b.py")).output == "a\nd\nx\n"

    within(tmp_path, steps, made)


@pytest.mark.parametrize("made", BACKENDS)
def test_a_link_leads_to_the_file_that_is_sealed_and_not_out_of_the_repository(tmp_path: Path, made: Callable[[], Sandboxes]) -> None:
    async def steps(sandbox: Sandbox) -> None:
        await sandbox.run("ln -s tests/unit other; ln -s /etc/passwd out; ln -s /tmp/x gone; echo x > /tmp/x")
        await sandbox.seal(["other/test_a.py"])
        assert (await sandbox.run("echo x > tests/unit/test_a.py; cat tests/unit/test_a.py")).output.endswith("a\n")
        for path in ("out", "gone", "tests", "nowhere", "/tmp/x", "../etc/passwd"):
            with pytest.raises(OSError, match=path.lstrip("/.")):
                await sandbox.seal([path])

    within(tmp_path, steps, made)


@pytest.mark.parametrize("made", BACKENDS)
def test_of_files_of_which_one_is_missing_none_is_sealed(tmp_path: Path, made: Callable[[], Sandboxes]) -> None:
    async def steps(sandbox: Sandbox) -> None:
        with pytest.raises(FileNotFoundError, match=r"missing\.py"):
            await sandbox.seal(["tests/test_b.py", "tests/missing.py"])
        assert (await sandbox.run("echo x > tests/test_b.py && mv tests t && cat t/test_b.py")).output == "x\n"

    within(tmp_path, steps, made)


@pytest.mark.parametrize("made", BACKENDS)
def test_a_fork_has_the_files_and_none_that_is_sealed(tmp_path: Path, made: Callable[[], Sandboxes]) -> None:
    async def steps(sandbox: Sandbox) -> None:
        before = await sandbox.snapshot()
        await sandbox.seal(FILES)
        await sandbox.write("tests/test_b.py", b"from the host\n")
        async with await sandbox.fork() as fork:
            assert (await fork.run("cat tests/test_b.py; rm -r tests && ls")).output == "from the host\nshop\n"
        await sandbox.write("tests/test_b.py", b"b\n")
        assert (await sandbox.snapshot()).address == before.address

    within(tmp_path, steps, made)


@bwrap_only
def test_a_folder_that_was_entered_before_it_was_sealed_is_sealed_too(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        await sandbox.run("cd tests/unit; exec 7< .")
        await sandbox.seal(["tests/unit/test_a.py"])
        for name in ("test_a.py", "/proc/self/fd/7/test_a.py", "../../tests/unit/test_a.py"):
            assert "Read-only" in (await sandbox.run(f"echo x > {name}")).output
        assert "busy" in (await sandbox.run("mv ../unit ../other")).output

    within(tmp_path, steps)


@bwrap_only
def test_what_was_open_for_writing_before_still_writes(tmp_path: Path) -> None:
    """The limit of it: a grading seals before any code of the submission runs."""

    async def steps(sandbox: Sandbox) -> None:
        await sandbox.run("exec 7>> tests/test_b.py")
        await sandbox.seal(["tests/test_b.py"])
        assert (await sandbox.run("echo more >&7; cat tests/test_b.py")).output == "b\nmore\n"

    within(tmp_path, steps)


@bwrap_only
def test_no_mount_of_a_sealed_file_is_left_after_a_reset(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        before = (await sandbox.run("grep -c . /proc/self/mountinfo")).output
        for _ in range(3):
            await sandbox.seal(FILES)
            assert (await sandbox.run("grep -c . /proc/self/mountinfo")).output != before
            await sandbox.reset()
            assert (await sandbox.run("grep -c . /proc/self/mountinfo")).output == before

    within(tmp_path, steps)


@bwrap_only
def test_files_that_are_not_sealed_are_moved_between_folders_of_sealed_ones(tmp_path: Path) -> None:
    async def steps(sandbox: Sandbox) -> None:
        await sandbox.seal(["tests/unit/test_a.py", "tests/test_b.py", "shop/cart.py"])
        code = "import os; os.rename('tests/unit/deep/data.txt', 'shop/data.txt'); os.link('shop/data.txt', 'tests/data.txt')"
        assert (await sandbox.exec(("python3", "-c", code))).exit_code == 0

    within(tmp_path, steps)


MODES = [(0o100644, 0o644), (0o100755, 0o755), (0o100600, 0o640), (0o100666, 0o644), (0o040755, 0o1775), (0o040700, 0o1770)]


@pytest.mark.parametrize(("before", "after"), MODES)
def test_a_sealed_mode_lets_the_group_read_files_and_make_new_ones_in_folders(before: int, after: int) -> None:
    assert oct(sealed(before)) == oct(after)
