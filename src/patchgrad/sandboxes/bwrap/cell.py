"""One cell as the nest sees it: a fork of a zygote that is PID 1 of its own namespaces and serves one episode.

Only one, because what its warden has heard and read stays in its memory, which a fork of its pytest can search: the next episode's agent
must not find the last one's tests there. What a process is to read, such as the grader's key, goes by it as a file.

The nest mounts each episode's files in its own namespace, under folders that the cell shares as a slave, and so they appear in
the running cell and vanish from it. One tmpfs of the task's size holds the upper layer, /tmp and /dev/shm together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
from collections.abc import Iterable

from patchgrad.sandboxes.bwrap.cgroups import Group
from patchgrad.sandboxes.bwrap.seal import Seal
from patchgrad.sandboxes.bwrap.template import Template
from patchgrad.sandboxes.linux import leftovers, shell, system, tree
from patchgrad.sandboxes.linux.children import holding
from patchgrad.sandboxes.linux.frames import Frame, Header, Reader, pack
from patchgrad.sandboxes.linux.shell_state import settled

_START_SECONDS = 60.0
_RESET_SECONDS = 15.0
_FOLDERS = ("/testbed", "/tmp", "/dev/shm")  # where an episode's processes may write


class CellDied(Exception):
    """The cell no longer answers; its files are gone with it."""


def make_bare(folder: str) -> None:
    """Makes what the host reads and writes of a cell without anything in it: the folders that its processes write to, and no more room.

    It is the same for all cells. What is mounted there is each cell's own, as this mount has no peers.
    """
    system.mount("files", folder, "tmpfs", system.NOSUID | system.NODEV, "mode=755")
    system.mount("none", folder, "", system.PRIVATE)
    for path in _FOLDERS:
        os.makedirs(f"{folder}{path}")
    os.mkdir(f"{folder}/var")
    os.symlink("/tmp", f"{folder}/var/tmp")
    system.mount("none", folder, "", system.REMOUNT | system.RDONLY | system.NOSUID | system.NODEV)


class Cell:
    """It is being born while it is made; then `lay`, `open`, any number of `ask`, perhaps `reset`, and `end`; `kill` at any time."""

    def __init__(self, folder: str, kind: str, template: Template, groups: str, bare: str) -> None:
        self._folder, self.kind, self._template = folder, kind, template
        self.files = f"{folder}/files"
        self.warm = template.warmed
        self._process = -1
        self._reader = Reader()
        self._frames: list[Frame] = []
        self._order = asyncio.Lock()  # answers come in the order of the questions, also when a question overtakes a command
        self._mounted: list[str] = []
        self._seal: Seal | None = None
        self._around: list[str] | None = None
        for name in ("files", "line/reply", "line/kept", "layer"):
            os.makedirs(f"{folder}/{name}")
        for name in ("go", "status", "request", *(f"reply/{slot}" for slot in range(shell.SLOTS))):
            os.mkfifo(f"{folder}/line/{name}", 0o600)
        self._group = Group(groups, os.path.basename(folder)) if groups else None
        system.mount(bare, self.files, "", system.BIND)
        places = {path: f"{self.files}{path}" for path in _FOLDERS} | {shell.LINE: f"{folder}/line"}
        places |= dict.fromkeys(template.temporary, f"{self.files}/tmp")
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        template.cells += 1
        with theirs:
            try:
                template.fork(theirs, places, self._group)
            except OSError as error:
                self.kill()
                raise CellDied(template.words() or str(error)) from error

    async def ready(self) -> None:
        """When the warden has said hello."""
        if self._process < 0:
            try:
                await self._hello()
            except (OSError, TimeoutError, ValueError) as error:
                self.kill()
                raise CellDied(self._template.words() or str(error) or "no answer") from error

    async def _hello(self) -> None:
        """The warden's first frame, which comes with a handle on its process."""
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._control.fileno(), ready.set)
        try:
            await asyncio.wait_for(ready.wait(), _START_SECONDS)
        finally:
            loop.remove_reader(self._control.fileno())
        text, held = system.receive(self._control, 1 << 12, 1)
        self._process = held[0] if held else -1
        for header, _ in self._reader.feed(text):
            if "refused" in header:
                raise ValueError(header["refused"])
        if self._process < 0:
            raise ValueError("the cell ended before it began")

    # --- episodes ---

    async def lay(self, root: str, limits: Header, writable: bool = False) -> None:
        """Mounts fresh files over `root`, or `root` itself when it is to be changed."""
        await self.ready()  # what is mounted before the cell has taken its places does not appear in them
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
        self._mount(f"{layer}/shm", f"{self.files}/dev/shm", "", system.BIND, "")

    async def open(self, limits: Header, directory: str = "/testbed", script: str = "") -> None:
        """Hands the files, as they are now, to the warden and its shell, which the script puts into a state."""
        known = {**limits, "capped": self._group is not None}
        await self.ask({"op": "open", "limits": known, "directory": directory, "shell": script}, b"", _RESET_SECONDS)

    def _mount(self, source: str, target: str, kind: str, flags: int, options: str) -> None:
        system.mount(source, target, kind, flags, options)
        self._mounted.append(target)

    @property
    def upper(self) -> str:
        return f"{self._folder}/layer/upper"

    @property
    def written(self) -> str:
        """Where the host writes the cell's files, sealed ones too."""
        return self._seal.root if self._seal else self.files

    def seal(self, paths: Iterable[str]) -> None:
        """From now on nobody in the cell can change these files, `testbed/a.py`, or put something in their place.

        Raises `OSError` for the first that is no regular file; then none of them is sealed.
        """
        found = tree.regular(self.files, paths)
        try:
            if self._seal is None:
                self._seal = Seal(self._folder, self.files)
            self._seal.add(found)
        except OSError as error:  # a host allows so many mounts
            raise CellDied(f"{len(found)} files could not be sealed: {error.strerror}") from error

    def write(self, path: str, content: bytes) -> None:
        """Writes a file of the episode's, named from the top of its files."""
        self._around = None
        tree.write(self.written, path, content)

    def outside(self) -> list[str]:
        """The paths of files that are in no state, looked for again where something has run since."""
        if self._around is None:
            layer = f"{self._folder}/layer"
            self._around = leftovers.files({"/tmp": f"{layer}/tmp", "/tmp/home": f"{layer}/tmp/home", "/dev/shm": f"{layer}/shm"})
        return self._around

    async def run(self, command: bytes, timeout: float, wall: float) -> Frame:
        """One turn of the agent's shell. The command is a file, because bash reads a pipe one byte at a time."""
        with open(f"{self._folder}/line/command", "wb") as file:
            file.write(command.replace(b"\0", b""))
        plain = settled(command.decode(errors="surrogateescape"))
        return await self.ask({"op": "run", "timeout": timeout, "wall": wall, "settled": plain}, b"", wall + _RESET_SECONDS)

    async def ask(self, header: Header, body: bytes, seconds: float) -> Frame:
        """One question to the warden; a late or broken answer is `CellDied`. The body is a file, which the warden passes on unread."""
        self._around = None
        try:
            async with asyncio.timeout(seconds):
                await self._send(header, body)
                async with self._order:
                    return await self._receive()
        except (TimeoutError, OSError, ValueError) as error:
            raise CellDied("the warden did not answer") from error

    async def _send(self, header: Header, body: bytes) -> None:
        text = pack(header | ({"stdin": True} if body else {}))
        sent = 0
        if body:
            file = holding(body)
            try:
                sent = socket.send_fds(self._control, [text], [file])
            finally:
                os.close(file)
        await asyncio.get_running_loop().sock_sendall(self._control, text[sent:])

    async def _receive(self) -> Frame:
        while not self._frames:
            data = await asyncio.get_running_loop().sock_recv(self._control, 1 << 18)
            if not data:
                raise CellDied("the cell ended")
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    async def reset(self) -> None:
        """Begins the episode anew, a command that still runs included: no process and no file of it is left."""
        await self.ask({"op": "reset"}, b"", _RESET_SECONDS)
        self.unmount()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/line/command")

    def unmount(self) -> None:
        """Takes the episode's mounts away, here and by propagation in the cell."""
        if self._seal is not None:
            self._seal.end()
            self._seal = None
        while self._mounted:
            system.unmount(self._mounted.pop())

    @property
    def ran_out(self) -> bool:
        """Did the kernel end a process of the cell because all of it held more memory than its group may?"""
        return self._group is not None and self._group.ran_out()

    @property
    def gone(self) -> bool:
        """Has its warden, and so all of it, ended? One that is being born has not."""
        return self._process >= 0 and self._ended(0.0)

    def _ended(self, seconds: float) -> bool:
        """Waits so long for the end of the warden, with which all of its namespace has ended."""
        end = select.poll()
        end.register(self._process, select.POLLIN)
        return bool(end.poll(1000 * seconds))

    async def end(self) -> None:
        """Ends the cell and everything in it without holding up the others."""
        if self._control.fileno() >= 0 and self._process >= 0:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            loop.add_reader(self._process, ended.set)
            try:
                await asyncio.wait_for(ended.wait(), _RESET_SECONDS)
            except TimeoutError:
                pass
            finally:
                loop.remove_reader(self._process)
        self.kill()

    def kill(self) -> None:
        """Ends the cell and everything in it. Twice is no error."""
        if self._control.fileno() < 0:
            return
        self._control.close()
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            self._ended(_RESET_SECONDS)
            os.close(self._process)
            self._process = -1
        self._template.cells -= 1
        self.unmount()
        system.unmount(self.files)
        if self._group is not None:
            self._group.remove()
        shutil.rmtree(self._folder, ignore_errors=True)
