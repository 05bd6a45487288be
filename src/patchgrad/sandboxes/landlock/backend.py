"""Sandboxes for hosts without user namespaces: files are copied, processes lock themselves in, and paths are put into other words."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchgrad.contracts import Capabilities, Result, patience
from patchgrad.errors import MissingDependency, SandboxFault, TaskError
from patchgrad.sandboxes.admission import Admission
from patchgrad.sandboxes.archives import archive
from patchgrad.sandboxes.bwrap import shell, tree
from patchgrad.sandboxes.bwrap.frames import Frame, Header, Reader, pack
from patchgrad.sandboxes.bwrap.interior import MASKED
from patchgrad.sandboxes.bwrap.packages import ensure_site
from patchgrad.sandboxes.bwrap.roots import extract
from patchgrad.sandboxes.landlock.confine import NEEDED, covering, version
from patchgrad.sandboxes.owners import lives, owner
from patchgrad.values import Snapshot, Task, digest

_START = """import sys, types
for name, folder in {packages!r}.items():
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder]
from patchgrad.sandboxes.landlock.keeper import main
main({settings!r})
"""
_SLACK = 60.0
_LEFT_OUT = shutil.ignore_patterns("site-packages", "test", "idlelib")
_PREFIX = "patchgrad-landlock-"
_FIRST_USER = 6_000_000
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_PLACES = re.compile(r"(?<![\w./-])/(testbed|tmp)(?![\w.-])")
_ETC = (
    "passwd",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "services",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROGRAMS = {
    "python": '#!/bin/sh\nexec {real} -s "$@"\n',
    "python3": '#!/bin/sh\nexec {real} -s "$@"\n',
    "pytest": '#!/bin/sh\nexec {real} -s -m pytest "$@"\n',
    "py.test": '#!/bin/sh\nexec {real} -s -m pytest "$@"\n',
}


class LandlockSandboxes:
    """Copies of a task's repository below `folder`, by default a new one in the host's temporary folder, which `close` removes.

    There are no namespaces: an agent sees the names of this host's processes and shares its disk, and memory is looked at ten times a
    second. Started by root, each sandbox is another user of the host's. Started by an ordinary user, all are that user, and may change the
    mode and the times of the user's own files wherever they lie, which Landlock does not control.

    `/testbed` and `/tmp` are other folders really. Commands, arguments and outputs are put into the right words; a program that has such a
    path in itself does not find it. A recipe has to name what it does without (`sandbox.requires`).
    """

    def __init__(self, cells: int = 32, folder: Path | None = None) -> None:
        self._cells, self._free, self._door = cells, asyncio.Semaphore(cells), Admission()
        self._given, self._folder = folder, folder
        self._roots: dict[str, Path] = {}
        self._making: dict[str, asyncio.Lock] = {}
        self._made = 0
        self._python = self._site = ""
        self._readable: list[str] = []

    def probe(self) -> Capabilities:
        """What is enforced, which is less than elsewhere; `MissingDependency` where the kernel cannot keep signals in."""
        if version() < NEEDED:
            raise MissingDependency(
                f"the landlock sandbox needs Linux 6.12 or newer with Landlock: interface {NEEDED}, and here it is {version()}"
            )
        root = os.geteuid() == 0
        notes = ["weaker: it sees this host's processes", "memory is watched", "the disk is the host's"]
        if not root:
            notes += ["processes are watched", "modes and times of this user's own files can be changed"]
        return Capabilities("landlock", True, root, False, False, False, True, tuple(notes))

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
        return self._top() / str(self._made), user if os.geteuid() == 0 else None

    def _top(self) -> Path:
        """Where everything lies, with the programs that a sandbox finds first on its PATH."""
        if self._folder is None:
            for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
                if not lives(left.name.removeprefix(_PREFIX).partition("+")[0]):
                    shutil.rmtree(left, ignore_errors=True)
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{owner()}+"))
        if os.geteuid() == 0 and not _open_to_all(self._folder.parent):
            raise SandboxFault(f"{self._folder} lies in a closed folder, where the users that sandboxes of root belong to cannot go")
        if not (self._folder / "bin").is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o755)
            self._python, self._site = _at_hand(Path(sys.base_prefix), self._folder), _at_hand(ensure_site(), self._folder)
            (self._folder / "bin").mkdir()
            for name, text in _PROGRAMS.items():
                path = self._folder / "bin" / name
                path.write_text(text.format(real=f"{self._python}/bin/python{_VERSION}"))
                path.chmod(0o755)
            (self._folder / "gitconfig").write_text(shell.ETC["gitconfig"])
        return self._folder

    def readable(self) -> list[str]:
        """Programs, libraries and a Python with pytest, and nothing that is installed beside it."""
        if not self._readable:
            packages = [str(path) for path in Path(self._python, "lib").glob("python3*/*-packages")]
            hidden = [path for path in (*MASKED, *packages) if os.path.isdir(path)]
            found = covering("/usr", hidden) + covering(self._python, packages)
            found += [path for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64") if os.path.isdir(path) and not os.path.islink(path)]
            found += [f"/etc/{name}" for name in _ETC]
            self._readable = [*found, "/proc", self._site, str(self._top() / "bin"), str(self._top() / "gitconfig")]
        return self._readable

    def environment(self, home: Path) -> dict[str, str]:
        """The variables of a sandbox at `home`."""
        ours = {name: value for name, value in shell.ENVIRONMENT.items() if name != "PATH"}
        paths = {"PATH": f"{self._top()}/bin:/usr/bin:/bin", "PYTHONPATH": self._site, "HOME": f"{home}/tmp/home", "TMPDIR": f"{home}/tmp"}
        git = {"GIT_CONFIG_GLOBAL": f"{self._top()}/gitconfig", "GIT_CONFIG_NOSYSTEM": "1"}
        return ours | paths | git | {"PYTEST_ADDOPTS": f"-o cache_dir={home}/tmp/.pytest_cache"}

    async def _root(self, task: Task) -> Path:
        key = digest(task.repository.digest, *task.setup)
        async with self._making.setdefault(key, asyncio.Lock()):
            if key not in self._roots:
                self._roots[key] = await self._make(task, key)
        return self._roots[key]

    async def _make(self, task: Task, key: str) -> Path:
        """Unpacks, sets up and commits in a sandbox of its own, whose files are then the first state of all others."""
        content = await asyncio.to_thread(archive, task)
        top = await asyncio.to_thread(self._top)
        root, empty = top / f"root-{key[:16]}", top / "empty"
        await asyncio.to_thread(shutil.rmtree, root, True)
        empty.mkdir(exist_ok=True)
        sandbox = LandlockSandbox(self, *self._next(), empty, task, counted=False)
        try:
            await sandbox.start(None)
            await asyncio.to_thread(extract, content, str(sandbox.home / "testbed"), task.limits.disk + 16 * len(content))
            await asyncio.to_thread(sandbox.give)
            for command in (*task.setup, shell.FIRST_COMMIT):
                done = await sandbox.exec(["bash", "-c", command], max(task.limits.command_seconds, 60.0))
                if done.exit_code != 0:
                    raise TaskError(f"task {task.id!r}: set-up command failed: {command.strip()[:200]!r}: {done.output[-500:].strip()}")
            await sandbox.end()
            (sandbox.home / "testbed").rename(root)
        except ValueError as error:
            raise TaskError(f"task {task.id!r}: the archive {task.repository.location} {error}") from error
        finally:
            await sandbox.close()
        return root

    async def close(self) -> None:
        """Removes the copies."""
        folder, self._folder, self._roots = self._folder, self._given, {}
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, True)


class LandlockSandbox:
    """One copy at `home`, whose `testbed` and `tmp` are what the agent calls `/testbed` and `/tmp`."""

    def __init__(self, pool: LandlockSandboxes, home: Path, user: int | None, root: Path, task: Task, counted: bool = True) -> None:
        self._pool, self.home, self._user, self._root, self._task, self._counted = pool, home, user, root, task, counted
        self._directory = "/testbed"
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = self._broken = False
        self._frames: list[Frame] = []
        self._parts = Reader()

    async def start(self, state: Snapshot | None) -> None:
        """Lays out the files and starts the keeper."""
        await asyncio.to_thread(self._lay_out, state)
        here = Path(__file__).parent
        places = {"patchgrad": here.parents[1], "patchgrad.sandboxes": here.parent}
        places |= {"patchgrad.sandboxes.bwrap": here.parent / "bwrap", "patchgrad.sandboxes.landlock": here}
        ours, theirs = socket.socketpair()
        limits = self._task.limits
        settings = {
            "control": theirs.fileno(),
            "limits": {name: getattr(limits, name) for name in ("memory", "disk", "processes", "output")},
            "user": self._user,
            "home": str(self.home),
            "environment": self._pool.environment(self.home),
            "readable": self._pool.readable(),
            "writable": [f"{self.home}/testbed", f"{self.home}/tmp", *(f"/dev/{name}" for name in _DEVICES)],
        }
        code = _START.format(packages={name: str(path) for name, path in places.items()}, settings=settings)
        with theirs:
            command = [sys.executable, "-I", "-S", "-c", code]
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True, cwd="/"
            )
        ours.setblocking(False)
        self._control = ours
        header, _ = await self._receive(_SLACK)
        if "refused" in header:
            raise MissingDependency(f"this host does not let a process lock itself in: {header['refused']}")
        await self._ask({"op": "end", "directory": f"{self.home}/testbed{self._directory.removeprefix('/testbed')}"}, b"")

    def _lay_out(self, state: Snapshot | None) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self._root, self.home / "testbed", symlinks=True)
        (self.home / "tmp" / "home").mkdir(parents=True)
        self._directory = state.directory if state else "/testbed"
        if state is not None:
            tree.apply(f"{self.home}/testbed", dict(state.entries))
        self.give()

    def give(self) -> None:
        """Makes all files those of the sandbox's user, where it has one of its own."""
        if self._user is not None:
            for folder, folders, files in os.walk(self.home):
                for name in (".", *folders, *files):
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
        header, body = await self._ask({**header, "timeout": seconds, "wall": patience(seconds)}, body)
        text, report = body[: header["text"]], body[header["text"] :]
        self._directory = self._out_of(header["directory"])
        return Result(
            output=self._out_of(text.decode(errors="replace")),
            exit_code=header["code"],
            state=header["state"],
            truncated=header["cut"],
            directory=self._directory,
            seconds=header["seconds"],
            cpu=header["cpu"],
            report=report,
        )

    def _into(self, text: str) -> str:
        return _PLACES.sub(lambda found: f"{self.home}/{found[1]}", text)

    def _out_of(self, text: str) -> str:
        return text.replace(f"{self.home}/testbed", "/testbed").replace(f"{self.home}/tmp", "/tmp")

    async def read(self, path: str) -> bytes:
        """A regular file of at most 64 MiB; `FileNotFoundError`, `IsADirectoryError` or `PermissionError` otherwise."""
        self._open()
        return await asyncio.to_thread(tree.read, str(self.home), _inside(path))

    async def write(self, path: str, content: bytes) -> None:
        """Writes a regular file and makes the folders above it."""
        told, _ = await self._ask({"op": "write", "path": _inside(path)}, content)
        if "errno" in told:
            raise OSError(told["errno"], told["error"], told["path"])

    async def snapshot(self) -> Snapshot:
        """The state of `/testbed`, found by reading all of it, under the address that any other backend gives it."""
        self._open()
        async with self._turn:
            entries = await asyncio.to_thread(tree.difference, f"{self.home}/testbed", str(self._root))
        return Snapshot.of(entries, self._directory)

    async def fork(self) -> LandlockSandbox:
        """Another copy with these files."""
        return await self._pool.open(self._task, await self.snapshot())

    async def reset(self) -> None:
        """Back to the repository."""
        await self.end()
        await asyncio.to_thread(self._lay_out, None)

    async def end(self) -> None:
        """Ends every process."""
        await self._ask({"op": "end", "directory": f"{self.home}/testbed"}, b"")

    async def __aenter__(self) -> LandlockSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every process and removes the files; closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._process is not None:
                self._control.close()  # which the keeper takes for the end
                await asyncio.to_thread(self._process.wait)
            await asyncio.to_thread(shutil.rmtree, self.home, True)
        finally:
            if self._counted:
                self._pool.release()

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


def _open_to_all(folder: Path) -> bool:
    return all(above.stat().st_mode & 0o001 for above in (folder.resolve(), *folder.resolve().parents))


def _at_hand(folder: Path, top: Path) -> str:
    """A folder of programs as other users can read it: itself, or, where it lies in a closed home, a copy without installed packages."""
    folder = folder.resolve()
    if os.geteuid() != 0 or _open_to_all(folder):
        return str(folder)
    wanted = [folder / "bin" / f"python{_VERSION}", *folder.glob("lib/libpython*"), folder / "lib" / f"python{_VERSION}"]
    for path in [path for path in wanted if path.exists()] or [folder]:
        target = top / folder.name / path.relative_to(folder)
        if path.is_dir():
            shutil.copytree(
                path, target, symlinks=True, ignore=shutil.ignore_patterns("site-packages", "test", "idlelib"), dirs_exist_ok=True
            )
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    return str(top / folder.name)


def _inside(path: str) -> str:
    return path.lstrip("/") if path.startswith("/") else f"testbed/{path}"
