"""A sandbox for tests only: plain bash in a temporary folder of this host. It isolates **nothing**.

Never give it to a real policy. It stands in for a backend where a test is about something else. The folder plays `/testbed`: that
word is replaced on the way in and on the way out. `write` keeps to temporary folders, commands do what they say. The repository is
the task's archive, or the `files` given to the double.

    boxes = LocalSandboxes({"shop/cart.py": "total = 0\n"})
    sandbox = await boxes.open(task)
    (await sandbox.run("ls shop")).output      # "cart.py\n"
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchgrad.contracts import Capabilities, Result, Sandbox
from patchgrad.errors import SandboxFault, SandboxLost
from patchgrad.grading_plugin import FOLDER
from patchgrad.values import Limits, Snapshot, Task

ROOT = "/testbed"
_QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GIT_OPTIONAL_LOCKS": "0"}
Tree = dict[str, tuple[int, bytes]]

_DATED = {f"GIT_{who}_DATE": "2000-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}  # so that all of a task have one commit
_INIT = "git init -q . && git add -A -f && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m base"


class LocalSandboxes:
    """Opens `LocalSandbox`es; for tests of other parts only."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files = files
        self.opened = 0

    def probe(self) -> Capabilities:
        return Capabilities("local double", False, False, False, False, False, True, ("isolates nothing: tests only",))

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        self.opened += 1
        folder = Path(tempfile.mkdtemp(prefix="patchgrad-double-"))
        box = LocalSandbox(folder, task.limits, self, task)
        root = folder / "testbed"
        root.mkdir()
        if self._files is None:
            with tarfile.open(task.repository.location) as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # 3.11.4 and newer have it
                archive.extractall(root)
        for path, text in (self._files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        if not (root / ".git").exists():
            subprocess.run(["bash", "-c", _INIT], cwd=root, check=True, capture_output=True, env={**os.environ, **_DATED})
        box.base = _tree(root)
        if state is not None:
            box.restore(state)
        return box

    async def close(self) -> None:
        return None


class LocalSandbox(Sandbox):
    """One temporary folder. The shell's directory persists between `run`s; its variables do not."""

    def __init__(self, folder: Path, limits: Limits, pool: LocalSandboxes, task: Task) -> None:
        self._folder, self._pool, self._task = folder, pool, task
        self._root = folder / "testbed"
        self._limits = limits
        self._directory = ROOT
        self.base: Tree = {}
        self.fault: SandboxFault | None = None
        self.execs: list[tuple[str, ...]] = []

    async def run(self, command: str, timeout: float | None = None) -> Result:
        end = self._folder / "pwd"
        plain = self._host(command).replace("\0", "")  # as a shell that reads its commands does
        script = f"cd {self._host(self._directory)}\n{plain}\n__code=$?\npwd > {end}\nexit $__code\n"
        result = await self._spawn(["bash", "-c", script], timeout, {}, b"")
        if result.state == "ok" and end.exists():
            self._directory = self._guest(end.read_text().strip())
            end.unlink()
        return replace(result, directory=self._directory)

    async def exec(
        self,
        argv: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Result:
        self.execs.append(tuple(argv))
        return await self._spawn([self._host(part) for part in argv], timeout, env or {}, stdin)

    async def _spawn(self, argv: list[str], timeout: float | None, env: Mapping[str, str], stdin: bytes) -> Result:
        if self.fault:
            raise self.fault
        report, start = self._folder / "report", time.monotonic()
        report.write_bytes(b"")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"PATH": path, "HOME": str(self._folder), "PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1", **_QUICK, **env}
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f'exec 3>{report}; exec "$@"', "double", *argv),
            cwd=self._root,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(stdin), timeout or self._limits.command_seconds)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            return Result("", None, "timeout", directory=self._directory, seconds=time.monotonic() - start)
        text = self._guest(output.decode(errors="replace"))
        limit = self._limits.output
        seconds = time.monotonic() - start
        report_bytes = report.read_bytes()
        return Result(text[:limit], process.returncode, "ok", len(text) > limit, self._directory, seconds, report=report_bytes)

    async def read(self, path: str) -> bytes:
        if self.fault:
            raise self.fault
        return self._path(path).read_bytes()

    async def write(self, path: str, content: bytes) -> None:
        target = self._path(path)
        if not target.resolve().is_relative_to(Path(tempfile.gettempdir()).resolve()):  # a test may be run by root
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    async def seal(self, paths: Iterable[str]) -> None:
        for path in paths:
            place = self._path(path)
            if not place.is_file() or not place.is_relative_to(self._root):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    async def snapshot(self) -> Snapshot:
        _bound(self._root, self._limits.disk)
        now = _tree(self._root)
        entries: dict[str, tuple[int, bytes | None]] = {}
        for path in sorted(now.keys() | self.base.keys()):
            if now.get(path) != self.base.get(path):
                entries[path] = now.get(path, (0, None))
        return Snapshot.of(entries, self._directory)

    def restore(self, state: Snapshot) -> None:
        """Put the entries of a snapshot over the fresh tree."""
        for path, (mode, content) in state.entries.items():
            target = self._root / path
            if target.is_symlink() or target.exists():
                target.unlink()
            if content is None:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISLNK(mode):
                target.symlink_to(content.decode())
            else:
                target.write_bytes(content)
                target.chmod(mode & 0o777)
        self._directory = state.directory

    async def fork(self) -> LocalSandbox:
        return await self._pool.open(self._task, await self.snapshot())

    async def reset(self) -> None:
        fresh = await self._pool.open(self._task)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._root, self.base, self._directory = fresh._folder, fresh._root, fresh.base, ROOT

    async def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, path: str) -> Path:
        return Path(self._host(path)) if path.startswith("/") else self._root / path

    def _host(self, text: str) -> str:
        return text.replace(ROOT, str(self._root))

    def _guest(self, text: str) -> str:
        return text.replace(str(self._root), ROOT)


def _tree(root: Path) -> Tree:
    tree: Tree = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] == ".git":
            continue
        if path.is_symlink():
            tree[name] = (0o120777, os.readlink(path).encode())
        elif path.is_file():
            with contextlib.suppress(FileNotFoundError):  # a job in the background may have taken it away since
                tree[name] = (path.stat().st_mode, path.read_bytes())
    return tree


def _bound(root: Path, most: int) -> None:
    """Refuses what would take more than a disk, in whole pages and each name by itself."""
    total = 0
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            about = path.lstat()
            total += -(-about.st_size // 4096) * 4096 if stat.S_ISREG(about.st_mode) else 0
    if total > most:
        raise SandboxLost(f"The sandbox has no state that can be kept: its files take more than {most >> 20} MiB when they are laid out.")
