"""What all cells of a kind have in common, as the nest sees it: a file system that bubblewrap made once, and the zygote that lives in it.

There is one for the host's programs with pytest alone, one for each choice of packages beside it, and one for each image in use. Everything
of it is read-only but /tmp, which no cell sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping

from patchgrad.sandboxes.bwrap import interior
from patchgrad.sandboxes.bwrap.cgroups import Group
from patchgrad.sandboxes.linux import shell, system
from patchgrad.sandboxes.linux.frames import Header

_NEEDED = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")  # to make namespaces, and to bring the loopback up; a cell has neither
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
_WARM_SECONDS = 60.0


class Template:
    """`fork` any number of times, at once; `warm` makes the forks after it warm ones. `cells` is how many live."""

    def __init__(self, folder: str, shared: str, settings: Header, kind: str = "") -> None:
        self._folder, self._shared = folder, shared
        self.cells = 0
        self.warmed = False
        os.makedirs(f"{folder}/box/lib", exist_ok=True)
        os.makedirs(f"{folder}/box/line", exist_ok=True)
        of_image = kind.startswith("images/")
        self._interior = interior.image(shared, settings, kind, folder) if of_image else interior.host(shared, settings, kind)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders = [ours]  # the last of them is obeyed, and the others stay open: a zygote that hears nothing more ends
        with theirs, open(f"{folder}/log", "wb") as log:
            arguments = self._arguments(theirs.fileno())
            self._process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(theirs.fileno(),))

    def _arguments(self, orders: int) -> list[str]:
        args = ["bwrap", "--unshare-user", "--unshare-pid", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
        for capability in _NEEDED:
            args += ["--cap-add", capability]
        args += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", *self._interior.files, "--proc", "/proc"]
        args += ["--tmpfs", "/dev", "--dir", "/dev/pts", "--dir", "/dev/shm"]  # not `--dev`: it wants a user namespace of its own
        for name in _DEVICES:
            args += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
        for name, target in _LINKS.items():
            args += ["--symlink", target, f"/dev/{name}"]
        args += ["--ro-bind", f"{self._folder}/box", shell.BOX, "--ro-bind", f"{self._shared}/lib", f"{shell.BOX}/lib"]
        args += ["--dir", "/testbed", "--tmpfs", "/tmp", *self._interior.boxed, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
        for key, value in shell.ENVIRONMENT.items():
            args += ["--setenv", key, value]
        return [*args, *self._interior.program, f"{shell.BOX}/lib/start.py", str(orders)]

    @property
    def temporary(self) -> tuple[str, ...]:
        """Where a cell's temporary files are."""
        return self._interior.temporary

    def fork(self, control: socket.socket, places: Mapping[str, str], group: Group | None) -> None:
        """Asks for a cell that has these folders: `places` is folder by path. Who listens on the other end of `control` hears of it.

        Raises `OSError` when the zygote is gone.
        """
        held: list[int] = []
        try:
            for folder in places.values():
                held.append(system.tree_of(folder))
            if group is not None:
                held.append(group.door())
            order = json.dumps({"places": {path: path != shell.LINE for path in places}}).encode()
            try:
                socket.send_fds(self._orders[-1], [order], [control.fileno(), *held])
            except OSError:
                if len(self._orders) == 1:
                    raise
                self._orders.pop().close()  # the warm one ended, and the first still forks
                socket.send_fds(self._orders[-1], [order], [control.fileno(), *held])
        finally:
            for descriptor in held:
                os.close(descriptor)

    async def warm(self) -> None:
        """From now on cells are forked with pytest loaded. Takes as long as loading it does; those that live stay as they are."""
        if self.warmed:
            return
        self.warmed = True
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            socket.send_fds(self._orders[0], [b'{"warm": true}'], [theirs.fileno()])
        try:
            async with asyncio.timeout(_WARM_SECONDS):
                answer = await asyncio.get_running_loop().sock_recv(ours, 1 << 12)
        except (TimeoutError, OSError):
            answer = b""
        ours.setblocking(True)
        if answer:
            self._orders.append(ours)
        else:
            ours.close()

    @property
    def gone(self) -> bool:
        """Has the zygote ended?"""
        return self._process.poll() is not None

    def words(self) -> str:
        """The end of what bubblewrap and the zygote had to say, and how they ended if they have."""
        said = ""
        with contextlib.suppress(FileNotFoundError), open(f"{self._folder}/log", "rb") as log:  # another one is there by now
            said = log.read()[-500:].decode(errors="replace").strip()
        return said or (f"the template ended with status {self._process.returncode}" if self.gone else "")

    def kill(self) -> None:
        """Ends the zygote, and with it whatever lives of its cells."""
        for orders in self._orders:
            orders.close()
        self._process.kill()
        self._process.wait()
        for place in self._interior.mounted:
            system.unmount(place)
        shutil.rmtree(self._folder, ignore_errors=True)
