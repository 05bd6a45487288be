"""Sandboxes for hosts without user namespaces: files are copied, processes lock themselves in, and paths are put into other words."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from patchgrad.contracts import Capabilities, Result, Sandbox, patience
from patchgrad.errors import MissingDependency, SandboxFault, SandboxLost, TaskError
from patchgrad.sandboxes.admission import Admission
from patchgrad.sandboxes.archives import archive, preparation, root_key
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.sandboxes.landlock.places import Places, removed
from patchgrad.sandboxes.landlock.seal import Seal
from patchgrad.sandboxes.linux import leftovers, shell, tree
from patchgrad.sandboxes.linux.answers import Standing, below, result
from patchgrad.sandboxes.linux.bounds import TOLD, Unkept
from patchgrad.sandboxes.linux.changes import difference
from patchgrad.sandboxes.linux.frames import Frame, Header, Reader, pack
from patchgrad.sandboxes.linux.start import code
from patchgrad.sandboxes.linux.unpack import extract
from patchgrad.sandboxes.programs import ensure_programs
from patchgrad.values import Snapshot, Task

_SLACK = 60.0
_FIRST_USER = 6_000_000
_PLACES = re.compile(r"(?<![\w./-])/(testbed|tmp)(?![\w.-])")
_DEVICES = ("null", "zero", "full", "random", "urandom")


class LandlockSandboxes:
    """Copies of a task's repository below `folder`, by default a new one in the host's temporary folder, which `close` removes.

    There are no namespaces: an agent sees the names of this host's processes and shares its disk, and memory is looked at ten times a
    second. Started by root, each sandbox is another user of the host's. Started by an ordinary user, all are that user, and may change the
    mode and the times of the user's own files wherever they lie, which Landlock does not control.

    `/testbed` and `/tmp` are other folders really. Commands, arguments and outputs are put into the right words; a program that has such a
    path in itself does not find it. A recipe has to name what it does without (`sandbox.requires`).

    All sandboxes, those that grade included, may read and run what is in these `folders` of the host (`sandboxes.folders`).
    """

    def __init__(self, cells: int = 32, folder: Path | None = None, *, folders: Sequence[str] = ()) -> None:
        self._cells, self._folder = cells, folder
        self._free, self._door = asyncio.Semaphore(cells), Admission()
        self.places = Places(folder, folders)
        self._roots: dict[str, Path] = {}
        self._making: dict[str, asyncio.Lock] = {}
        self._made = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """On another machine it is one with nothing open."""
        return partial(LandlockSandboxes, self._cells, self._folder, folders=self.places.folders), ()

    def probe(self) -> Capabilities:
        """What is enforced, which is less than elsewhere; `MissingDependency` where the kernel cannot keep signals in.

        `ConfigError` for a folder that is not there.
        """
        self.places.look()
        if version() < NEEDED:
            raise MissingDependency(
                f"the landlock sandbox needs Linux 6.12 or newer with Landlock: interface {NEEDED}, and here it is {version()}"
            )
        root = os.geteuid() == 0
        notes = ["weaker: it sees this host's processes", "memory is watched", "the disk is the host's"]
        if not root:
            notes += ["processes are watched", "modes and times of this user's own files can be changed", "no file can be sealed"]
        return Capabilities(
            "landlock", True, root, False, False, False, True, tuple(notes), work=True, seal=root, programs=ensure_programs().contents
        )

    async def open(self, task: Task, state: Snapshot | None = None) -> LandlockSandbox:
        """A copy of the repository in its first state, or in `state`."""
        self.probe()
        if task.repository.kind != "archive":
            raise TaskError(f"task {task.id!r} has a repository of kind {task.repository.kind!r}; the landlock sandbox needs an archive")
        await self._free.acquire()
        try:
            await self._door.enter(task.limits.memory)
        except BaseException:
            self._free.release()
            raise
        sandbox = None
        try:
            root = await self._root(task)
            sandbox = LandlockSandbox(self, *self._next(), root, task)
            await sandbox.start(state)
        except BaseException:
            if sandbox is not None:
                await sandbox.close()
            else:
                self.release()
            raise
        return sandbox

    def release(self) -> None:
        """One sandbox is gone."""
        self._door.leave()
        self._free.release()

    def _next(self) -> tuple[Path, int | None]:
        """A place for a sandbox, and who it belongs to."""
        self._made += 1
        user = _FIRST_USER + os.getpid() % 4096 * 1024 + self._made % 1024
        return self.places.top() / str(self._made), user if os.geteuid() == 0 else None

    async def _root(self, task: Task) -> Path:
        key = root_key(task)
        async with self._making.setdefault(key, asyncio.Lock()):
            if key not in self._roots:
                self._roots[key] = await self._make(task, key)
        return self._roots[key]

    async def _make(self, task: Task, key: str) -> Path:
        """Unpacks, sets up and commits in a sandbox of its own, whose files are then the first state of all others."""
        content = await asyncio.to_thread(archive, task)
        top = await asyncio.to_thread(self.places.top)
        root, empty = top / f"root-{key[:16]}", top / "empty"
        await asyncio.to_thread(removed, root)
        empty.mkdir(exist_ok=True)
        sandbox = LandlockSandbox(self, *self._next(), empty, task, counted=False)
        try:
            await sandbox.start(None)
            await asyncio.to_thread(extract, content, str(sandbox.home / "testbed"), task.limits.disk + 16 * len(content))
            await asyncio.to_thread(sandbox.give)
            for command in (*preparation(task), shell.first_commit(archive=True)):
                done = await sandbox.exec(["bash", "-c", command], max(task.limits.command_seconds, 60.0))
                if done.exit_code != 0:
                    raise TaskError(f"task {task.id!r}: set-up command failed: {command.strip()[:200]!r}: {done.output[-500:].strip()}")
            await sandbox.end()
            sandbox.home.chmod(0o755)
            (sandbox.home / "testbed").rename(root)
        except ValueError as error:
            raise TaskError(f"task {task.id!r}: the archive {task.repository.location} {error}") from error
        finally:
            await sandbox.close()
        return root

    async def close(self) -> None:
        """Removes the copies."""
        self._roots = {}
        await asyncio.to_thread(self.places.remove)


class LandlockSandbox(Sandbox):
    """One copy at `home`, whose `testbed` and `tmp` are what the agent calls `/testbed` and `/tmp`."""

    def __init__(self, pool: LandlockSandboxes, home: Path, user: int | None, root: Path, task: Task, counted: bool = True) -> None:
        self._pool, self.home, self._user, self._root, self._task, self._counted = pool, home, user, root, task, counted
        self._at = Standing()
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._seal = Seal(str(home), user) if user is not None else None
        self._closed = self._broken = False
        self._frames: list[Frame] = []
        self._parts = Reader()

    async def start(self, state: Snapshot | None) -> None:
        """Lays out the files and starts the keeper."""
        site = await asyncio.to_thread(self._pool.places.site, self._task.packages)
        await asyncio.to_thread(self._lay_out, state)
        sources = {name: str(Path(__file__).parents[1] / name) for name in ("linux", "landlock")}
        ours, theirs = socket.socketpair()
        limits = self._task.limits
        settings = {
            "control": theirs.fileno(),
            "limits": {name: getattr(limits, name) for name in ("memory", "disk", "processes", "output")},
            "user": self._user,
            "home": str(self.home),
            "environment": self._pool.places.environment(self.home, site),
            "readable": self._pool.places.readable(site),
            "writable": [f"{self.home}/testbed", f"{self.home}/tmp", *(f"/dev/{name}" for name in _DEVICES)],
        }
        with theirs:
            command = [sys.executable, "-I", "-S", "-c", code(sources, "landlock.keeper", repr(settings))]
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True, cwd="/"
            )
        ours.setblocking(False)
        self._control = ours
        header, _ = await self._receive(_SLACK)
        if "refused" in header:
            raise MissingDependency(f"this host does not let a process lock itself in: {header['refused']}")
        await self._ask({"op": "end", "directory": self._into(self._at.directory), "shell": self._into(self._at.shell)}, b"")

    def _lay_out(self, state: Snapshot | None) -> None:
        removed(self.home)
        if self._seal is not None:
            self._seal.modes.clear()
        shutil.copytree(self._root, self.home / "testbed", symlinks=True)
        (self.home / "tmp" / "home").mkdir(parents=True)
        self._at = Standing.at(state)
        if state is not None:
            tree.apply(f"{self.home}/testbed", dict(state.entries))
        self.give()
        self.home.chmod(0o555)  # the host writes where the agent may, and nowhere beside it

    def give(self) -> None:
        """Makes all that is in the sandbox its user's, where it has one of its own."""
        if self._user is not None:
            for folder, folders, files in os.walk(self.home):
                for name in (*folders, *files):
                    os.chown(os.path.join(folder, name), self._user, self._user, follow_symlinks=False)

    async def run(self, command: str, timeout: float | None = None) -> Result:
        """A command in the agent's shell."""
        return await self._run({"op": "run"}, self._into(command).encode(errors="surrogateescape"), timeout)

    async def exec(
        self,
        argv: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Result:
        """A fresh process in the repository, its descriptor 3 being the report."""
        return await self._run({"op": "exec", "argv": [self._into(word) for word in argv], "env": dict(env or {})}, stdin, timeout)

    async def _run(self, header: Header, body: bytes, timeout: float | None) -> Result:
        seconds = self._task.limits.command_seconds if timeout is None else timeout
        frame = await self._ask({**header, "timeout": seconds, "wall": patience(seconds)}, body)
        self._at = Standing.told(frame, self._out_of)
        return result(frame, self._out_of)

    def _into(self, text: str) -> str:
        return _PLACES.sub(lambda found: f"{self.home}/{found[1]}", text)

    def _out_of(self, text: str) -> str:
        return text.replace(f"{self.home}/testbed", "/testbed").replace(f"{self.home}/tmp", "/tmp")

    async def read(self, path: str) -> bytes:
        """A regular file of at most 64 MiB; `FileNotFoundError`, `IsADirectoryError` or `PermissionError` otherwise."""
        self._open()
        return await asyncio.to_thread(tree.read, str(self.home), below(path))

    async def write(self, path: str, content: bytes) -> None:
        """Writes a regular file and makes the folders above it."""
        if self._seal is not None and await asyncio.to_thread(self._seal.holds, below(path)):  # to the keeper too, who is its user
            self._open()
            await asyncio.to_thread(tree.write, str(self.home), below(path), content)
            return
        told, _ = await self._ask({"op": "write", "path": below(path)}, content)
        if "errno" in told:
            raise OSError(told["errno"], told["error"], told["path"])

    async def seal(self, paths: Iterable[str]) -> None:
        """Makes files root's, and the folders above them root's with a sticky bit; without root it only looks whether they are there."""
        self._open()
        found = await asyncio.to_thread(tree.regular, str(self.home), [below(path) for path in paths])
        if self._seal is not None:
            await asyncio.to_thread(self._seal.add, found)

    async def snapshot(self) -> Snapshot:
        """The state of `/testbed`, found by reading all of it, under the address that any other backend gives it.

        `SandboxLost` where it would take more than the task's disk when it is laid out again, or cannot be read.
        """
        self._open()
        async with self._turn:
            modes = self._seal.modes if self._seal else {}
            try:
                entries = await asyncio.to_thread(difference, f"{self.home}/testbed", str(self._root), self._task.limits.disk, modes)
                outside = leftovers.files({path: f"{self.home}{path}" for path in ("/tmp", "/tmp/home")})
            except Unkept as error:
                raise SandboxLost(f"{TOLD}{error}.") from error
            except OSError as error:
                raise SandboxFault(f"the files of a sandbox cannot be read: {error}") from error
        return self._at.snapshot(entries, outside)

    async def fork(self) -> LandlockSandbox:
        """Another copy with these files, and a shell like this one's."""
        return await self._pool.open(self._task, await self.snapshot())

    async def reset(self) -> None:
        """Back to the repository, with a keeper of its own: the old one's rules are for folders that are gone."""
        await self.end()
        await self._stop()
        self._frames, self._parts = [], Reader()
        await self.start(None)

    async def end(self) -> None:
        """Ends every process."""
        await self._ask({"op": "end", "directory": f"{self.home}/testbed", "shell": ""}, b"")

    async def close(self) -> None:
        """Ends every process and removes the files; closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._stop()
            await asyncio.to_thread(removed, self.home)
        finally:
            if self._counted:
                self._pool.release()

    async def _stop(self) -> None:
        if self._process is not None:
            self._control.close()  # which the keeper takes for the end
            await asyncio.to_thread(self._process.wait)

    def _open(self) -> None:
        if self._closed or self._broken:
            raise SandboxFault("the sandbox is closed" if self._closed else "the sandbox broke")

    async def _ask(self, header: Header, body: bytes) -> Frame:
        self._open()
        async with self._turn:
            try:
                await asyncio.get_running_loop().sock_sendall(self._control, pack(header, body))
                return await self._receive(header.get("wall", 0.0) + _SLACK)
            except BaseException:
                self._broken = True  # a question without its answer: nobody may take that for the answer to another
                raise

    async def _receive(self, seconds: float) -> Frame:
        try:
            async with asyncio.timeout(seconds):
                while not self._frames:
                    data = await asyncio.get_running_loop().sock_recv(self._control, 1 << 18)
                    if not data:
                        raise SandboxFault("the keeper of a sandbox is gone")
                    self._frames += self._parts.feed(data)
        except (TimeoutError, OSError) as error:
            raise SandboxFault(f"the keeper of a sandbox did not answer: {error!r}") from error
        return self._frames.pop(0)
