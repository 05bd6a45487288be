"""The trainer's end of a nest: starts the process, sends requests, gives answers to whoever waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from patchgrad.errors import MissingDependency, SandboxFault, SandboxLost, TaskError
from patchgrad.packages.sites import ensure_site
from patchgrad.sandboxes.bwrap import cgroups
from patchgrad.sandboxes.linux.bounds import TOLD
from patchgrad.sandboxes.linux.frames import Frame, Header, Reader, Whole, split
from patchgrad.sandboxes.linux.hidden import hidden
from patchgrad.sandboxes.linux.start import code
from patchgrad.sandboxes.owners import lives, owner
from patchgrad.sandboxes.programs import ensure_programs

START_SECONDS = 30.0
_FIRST_USER = 700_000  # one user id a nest, far from any that exists: the kernel counts some resources by user

MISSING = "bubblewrap is not installed; run `apt-get install bubblewrap` or your distribution's equivalent"
REFUSED = (
    "this host lets ordinary users make no namespaces ({}); allow them (`sysctl kernel.unprivileged_userns_clone=1` and "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or an unconfined container) or choose another sandbox"
)


def program() -> str:
    """The path of bubblewrap; raises `MissingDependency`."""
    found = shutil.which("bwrap")
    if found is None:
        raise MissingDependency(MISSING)
    return found


class Link:
    """One nest. `ask` may be called from any number of tasks of one event loop. Its cells have the `folders`, real paths by shown ones."""

    def __init__(self, roots: int, images: Path, folders: Mapping[str, str]) -> None:
        self._roots, self._images, self._folders = roots, images, folders
        self._user = _FIRST_USER + os.getpid() % 65_536 + 65_536 * (next(_nests) % 16)
        self._group: Path | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._process: subprocess.Popen[bytes]
        self._listener: asyncio.Task[None]
        self._broken = ""

    async def start(self) -> None:
        """Starts the process and waits until it has its namespaces; raises `MissingDependency` when the host refuses them."""
        program()
        site = await asyncio.to_thread(ensure_site)
        programs = (await asyncio.to_thread(ensure_programs)).folder
        self._group = await asyncio.to_thread(cgroups.make, owner(), self._user, lives)
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", self._code(theirs.fileno(), site, programs)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            theirs.close()
        if self._group is not None:  # before it may boot a cell: version 2 lets it move what it starts only within its own
            (self._group / "nest" / "cgroup.procs").write_text(str(self._process.pid))
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=1 << 24)
        first = asyncio.get_running_loop().create_future()
        self._waiting[0] = first
        self._listener = asyncio.create_task(self._listen())
        try:
            header, _ = await asyncio.wait_for(first, START_SECONDS)
        except TimeoutError as error:
            await self.close()
            raise SandboxFault(f"the nest did not start within {START_SECONDS:g} seconds") from error
        if "refused" in header:
            await self.close()
            raise MissingDependency(REFUSED.format(header["refused"]))

    def _code(self, control: int, site: Path, programs: Path) -> str:
        sources = {name: str(Path(__file__).parents[1] / name) for name in ("linux", "bwrap")}
        scheme = "deb_system" if "deb_system" in sysconfig.get_scheme_names() else "posix_prefix"
        purelib = sysconfig.get_path("purelib", scheme, vars={"base": sys.base_prefix, "platbase": sys.base_prefix})
        settings = {
            "control": control,
            "sources": sources,
            "prefix": sys.base_prefix,
            "python": f"python{sys.version_info.major}.{sys.version_info.minor}",
            "sites": str(site.parent.resolve()),
            "site": f"sites/{site.name}",
            "library": _library(),
            "hidden": list(hidden()),
            "standard": _standard(sys.base_prefix),
            "packages": os.path.relpath(purelib, sys.base_prefix),
            "user": self._user,
            "group": str(self._group or ""),
            "images": str(self._images.resolve()),
            "programs": str(programs.resolve()),
            "folders": dict(self._folders),
            "roots": self._roots,
        }
        return code(sources, "bwrap.nest", repr(settings))

    @property
    def gone(self) -> bool:
        """Has the nest ended, or been closed?"""
        return bool(self._broken)

    async def ask(self, header: Header, body: bytes, seconds: float) -> Frame:
        """One request. A nest that is gone or late is a `SandboxFault`; an `OSError` of a file operation arrives as itself.

        Files that the nest does not keep as a state are a `SandboxLost`.
        """
        if self._broken:
            raise SandboxFault(self._broken)
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                for part in split({"id": number, **header}, body):
                    self._writer.write(part)
                    await self._writer.drain()
                answer, content = await waiting
        except TimeoutError as error:
            raise SandboxFault(f"the nest did not answer {header['op']!r} within {seconds:g} seconds") from error
        except (ConnectionError, RuntimeError) as error:  # of the write, before the listener has read the end; uvloop's is the second
            self._broken = "the nest is gone"
            raise SandboxFault(self._broken) from error
        finally:
            self._waiting.pop(number, None)
        if "lost" in answer:
            raise SandboxLost(f"{TOLD}{answer['lost']}.")
        if "fault" in answer:
            raise SandboxFault(f"the sandbox broke: {answer['fault']}")
        if "task" in answer:
            raise TaskError(answer["task"])
        if "errno" in answer and header["op"] not in ("read", "write", "seal"):
            raise SandboxFault(f"the sandbox broke: {answer['error']} in {header['op']!r}")
        if "errno" in answer:
            raise OSError(answer["errno"], answer["error"], answer["path"])
        return answer, content

    async def _listen(self) -> None:
        frames, whole = Reader(), Whole()
        with contextlib.suppress(ConnectionError, ValueError):
            while data := await self._reader.read(1 << 20):
                for header, body in whole.feed(frames.feed(data)):
                    waiting = self._waiting.get(header["id"])
                    if waiting is not None and not waiting.done():
                        waiting.set_result((header, body))
        self._broken = self._broken or "the nest is gone"
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(SandboxFault(self._broken))

    async def close(self) -> None:
        """Ends the nest; its cells and mounts end with it."""
        self._broken = "the sandboxes were closed"
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        self._listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listener
        for _ in range(100):
            if self._process.poll() is not None:
                break
            await asyncio.sleep(0.02)
        else:
            self._process.kill()
            self._process.wait()
        if self._group is not None:
            await asyncio.to_thread(cgroups.remove, self._group)


def _standard(prefix: str) -> list[str]:
    """Where Python's own library lies below its prefix; on some hosts what is compiled lies apart."""
    folders = {sysconfig.get_path("stdlib"), os.path.dirname(str(sysconfig.get_config_var("DESTSHARED")))}
    return sorted(os.path.relpath(folder, prefix) for folder in folders if folder.startswith(f"{prefix}/") and os.path.isdir(folder))


def _library() -> str:
    """The interpreter's shared library where its program looks for it, or nothing: a static build, or a library below /usr."""
    name = sysconfig.get_config_var("INSTSONAME") if sysconfig.get_config_var("Py_ENABLE_SHARED") else None
    path = os.path.join(sysconfig.get_config_var("LIBDIR") or "", name or "")
    ours = name and os.path.isfile(path) and path.startswith(sys.base_prefix + "/") and not path.startswith("/usr/")
    return path if ours else ""


_nests = itertools.count()
