"""One cell as the nest sees it: a long-lived bubblewrap process that serves episode after episode.

The nest mounts each episode's files in its own namespace, under a folder that the cell shares as a slave, and so they appear in
the running cell and vanish from it. One tmpfs of the task's size holds the upper layer, /tmp and /dev/shm together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess

from patchgrad.sandboxes.bwrap import interior, shell, system
from patchgrad.sandboxes.bwrap.cgroups import Group
from patchgrad.sandboxes.bwrap.frames import Frame, Header, Reader, pack

BOOT = """import sys, types
for name in ("patchgrad", "patchgrad.sandboxes", "patchgrad.sandboxes.bwrap"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [{folder!r}]
from patchgrad.sandboxes.bwrap.{module} import main
main({arguments})
"""
_HIDDEN = ("/proc/cmdline", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/sched_debug")
_START_SECONDS = 60.0
_RESET_SECONDS = 15.0


class CellDied(Exception):
    """The cell no longer answers; its files are gone with it."""


class Cell:
    """`start`, then for each episode `open`, any number of `ask`, `reset`; `kill` at any time."""

    def __init__(self, folder: str, shared: str, settings: Header, image: str = "") -> None:
        self._folder, self._shared, self._settings, self.image = folder, shared, settings, image
        self.files = f"{folder}/files"
        self._process: subprocess.Popen[bytes] | None = None
        self._control = socket.socket()
        self._reader = Reader()
        self._frames: list[Frame] = []
        self._order = asyncio.Lock()  # answers come in the order of the questions, also when a question overtakes a command
        self._mounted: list[str] = []
        self._group: Group | None = None
        for name in ("files/testbed", "files/tmp", "shm", "box/reply", "box/lib", "layer"):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        for name in ("go", "status", "request", *(f"reply/{slot}" for slot in range(shell.SLOTS))):
            with contextlib.suppress(FileExistsError):
                os.mkfifo(f"{folder}/box/{name}", 0o600)
        self._interior = interior.image(shared, settings, image, folder) if image else interior.host(shared, settings)

    async def start(self, filter_program: bytes) -> None:
        """Boots bubblewrap and waits for the warden."""
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        rules = os.memfd_create("seccomp")
        os.write(rules, filter_program)
        os.lseek(rules, 0, os.SEEK_SET)
        log = f"{self._folder}/log"
        try:
            with open(log, "wb") as errors:
                self._process = subprocess.Popen(
                    self._arguments(rules, theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=(rules, theirs.fileno()),
                )
        finally:
            os.close(rules)
            theirs.close()
        try:
            await asyncio.wait_for(self._receive(), _START_SECONDS)
        except (CellDied, TimeoutError) as error:
            await asyncio.sleep(0.05)
            status = self._process.poll()
            self.kill()
            with open(log, "rb") as errors:
                words = errors.read()[-500:].decode(errors="replace").strip()
            raise CellDied(words or f"no answer, exit status {status}") from error
        if self._settings["group"]:
            self._group = Group(self._settings["group"], os.path.basename(self._folder))
            with open(f"/proc/{self._process.pid}/task/{self._process.pid}/children") as children:
                self._group.add(int(children.read().split()[0]))  # the warden, and so all that it will start

    def _arguments(self, rules: int, control: int) -> list[str]:
        shared = self._shared
        args = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
        args += ["--hostname", "testbed", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
        args += ["--seccomp", str(rules), *self._interior.files, "--proc", "/proc", "--dev", "/dev"]
        for path in _HIDDEN:
            if os.path.exists(path):
                args += ["--ro-bind", "/dev/null", path]
        args += ["--ro-bind", f"{self._folder}/box", shell.BOX, "--ro-bind", f"{shared}/lib", f"{shell.BOX}/lib"]
        args += ["--bind", f"{self.files}/testbed", "/testbed", "--bind", f"{self.files}/tmp", "/tmp"]
        args += ["--bind", f"{self._folder}/shm", "/dev/shm", *self._interior.boxed]
        args += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
        for key, value in shell.ENVIRONMENT.items():
            args += ["--setenv", key, value]
        return [*args, *self._interior.program, f"{shell.BOX}/lib/start.py", str(control)]

    async def warm(self) -> None:
        """Loads pytest while the cell still holds nobody's files, and not at the first call of it."""
        await self.ask({"op": "warm"}, b"", _START_SECONDS)

    # --- episodes ---

    async def open(self, root: str, limits: Header, directory: str, writable: bool = False) -> None:
        """Mounts fresh files over `root`, or `root` itself when it is to be changed, and hands them to the warden."""
        if self._group is not None:
            self._group.limit(limits["memory"], limits["disk"])
        layer = f"{self._folder}/layer"
        inodes = max(4096, limits["disk"] >> 12)
        self._mount("layer", layer, "tmpfs", system.NOSUID | system.NODEV, f"size={limits['disk']},nr_inodes={inodes},mode=755")
        for name in ("upper", "work", "tmp", "shm"):
            os.mkdir(f"{layer}/{name}")
        if writable:
            self._mount(root, f"{self.files}/testbed", "", system.BIND, "")
        else:
            options = f"lowerdir={root},upperdir={layer}/upper,workdir={layer}/work,userxattr"
            self._mount("testbed", f"{self.files}/testbed", "overlay", system.NOSUID | system.NODEV, options)
        self._mount(f"{layer}/tmp", f"{self.files}/tmp", "", system.BIND, "")
        self._mount(f"{layer}/shm", f"{self._folder}/shm", "", system.BIND, "")
        await self.ask({"op": "open", "limits": limits, "directory": directory}, b"", _RESET_SECONDS)

    def _mount(self, source: str, target: str, kind: str, flags: int, options: str) -> None:
        system.mount(source, target, kind, flags, options)
        self._mounted.append(target)

    @property
    def upper(self) -> str:
        return f"{self._folder}/layer/upper"

    async def run(self, command: bytes, timeout: float, wall: float) -> Frame:
        """One turn of the agent's shell. The command is a file, because bash reads a pipe one byte at a time."""
        with open(f"{self._folder}/box/command", "wb") as file:
            file.write(command.replace(b"\0", b""))
        return await self.ask({"op": "run", "timeout": timeout, "wall": wall}, b"", wall + _RESET_SECONDS)

    async def ask(self, header: Header, body: bytes, seconds: float) -> Frame:
        """One question to the warden; a late or broken answer is `CellDied`."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_sendall(self._control, pack(header, body))
                async with self._order:
                    return await self._receive()
        except (TimeoutError, OSError, ValueError) as error:
            raise CellDied("the warden did not answer") from error

    async def _receive(self) -> Frame:
        while not self._frames:
            data = await asyncio.get_running_loop().sock_recv(self._control, 1 << 18)
            if not data:
                raise CellDied("the cell ended")
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    async def reset(self) -> None:
        """Ends the episode, a command that still runs included: no process and no file of it is left."""
        await self.ask({"op": "reset"}, b"", _RESET_SECONDS)
        self.unmount()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/box/command")

    def unmount(self) -> None:
        """Takes the episode's mounts away, here and by propagation in the cell."""
        while self._mounted:
            system.unmount(self._mounted.pop())

    def kill(self) -> None:
        """Ends the cell and everything in it."""
        self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.unmount()
        if self._group is not None:
            self._group.remove()
