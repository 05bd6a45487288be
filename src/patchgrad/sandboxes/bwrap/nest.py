"""The nest: a small single-threaded process that owns mounts and cells, so that the trainer needs neither privilege nor forks.

It is started by the trainer with one socket and is gone when that socket is. As root it first binds what an ordinary user cannot
reach and then becomes one: bubblewrap started by real root leaves writable switches of the kernel open. Standard library only.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import concurrent.futures.thread
import contextlib
import encodings.idna
import gzip
import os
import resource
import shutil
import signal
import socket
import sys
import tarfile
from collections.abc import Awaitable, Callable

from patchgrad.sandboxes.bwrap.cell import Cell, CellDied, make_bare
from patchgrad.sandboxes.bwrap.roots import Roots
from patchgrad.sandboxes.bwrap.template import Template
from patchgrad.sandboxes.linux import filter, shell, system, tree
from patchgrad.sandboxes.linux.bounds import Unkept
from patchgrad.sandboxes.linux.changes import changes
from patchgrad.sandboxes.linux.entries import packed, unpacked
from patchgrad.sandboxes.linux.frames import Frame, Header, Reader, Whole, pack, split
from patchgrad.sandboxes.linux.start import code

# Imported before the drop: the interpreter's own folder may be out of reach after it.
PRELOADED = (asyncio.events, concurrent.futures.thread, encodings.idna, gzip, tarfile)
_INSIDE = {
    "linux": ("frames", "shell", "shell_state", "leftovers", "system", "children", "clock"),
    "bwrap": ("isolation", "warm", "warden", "zygote"),
}
_PLUGIN = "patchgrad_"  # how the names of the grader's files begin, in a site
_KEPT = 16  # idle cells that are not of the usual kind: there may be as many images as tasks
_PLACES = ("/mnt", "/media", "/srv", "/run")
_TOO_MUCH = "its processes, and what the kernel held for them, took more memory than its limit, and the kernel ended them all"
_WARM_TEST = """import pytest


@pytest.fixture
def number(monkeypatch, capsys):
    return 1


@pytest.mark.parametrize("value", [1, 2])
def test_parameter(value, number):
    with pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    assert value >= number


def test_failure():
    assert [1, 2, {"a": 1}] == [1, 2, {"a": 2}]
"""


class Place:
    """Where the nest's own files live: a tmpfs over a folder of the host that the nest does not need, in its namespace only."""

    def __init__(self, settings: Header) -> None:
        needed = [settings["prefix"], settings["sites"], settings["images"], settings["programs"], *settings["folders"].values()]
        self.top = next(place for place in _PLACES if os.path.isdir(place) and not any(p.startswith(place) for p in needed))
        self.shared, self.bare = f"{self.top}/shared", f"{self.top}/bare"
        self._texts = {
            f"{folder}/{name}.py": _read(f"{settings['sources'][folder]}/{name}.py") for folder in _INSIDE for name in _INSIDE[folder]
        }
        self._settings = settings

    def enter(self) -> None:
        """Becomes an ordinary user in namespaces of its own and lays out what all cells share."""
        given = {name: self._settings[name] for name in ("sites", "images", "programs")} | {"python": self._settings["prefix"]}
        given |= {f"folders/{number}": path for number, path in enumerate(self._settings["folders"].values())}
        if os.geteuid() == 0:
            given = self._bind_as_root(given)
        user, group = os.getuid(), os.getgid()
        system.unshare(system.NEW_USER | system.NEW_NS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        system.mount("none", "/", "", system.REC | system.PRIVATE)
        held = {name: os.open(path, os.O_PATH | os.O_DIRECTORY) for name, path in given.items()}
        system.mount("nest", self.top, "tmpfs", system.NOSUID | system.NODEV, "mode=755")
        system.mount("none", self.top, "", system.SHARED)
        for name in ("bin", "empty", "etc/alternatives", "lib/linux", "lib/bwrap", "lib/warm", "plugin", *held):
            os.makedirs(f"{self.shared}/{name}")
        for name in ("cells", "roots", "templates", "bare"):
            os.mkdir(f"{self.top}/{name}")
        make_bare(self.bare)
        for name, folder in held.items():
            system.mount(f"/proc/self/fd/{folder}", f"{self.shared}/{name}", "", system.BIND | system.REC)
            os.close(folder)
        self._fill()

    def _bind_as_root(self, given: dict[str, str]) -> dict[str, str]:
        system.unshare(system.NEW_NS)
        system.mount("none", "/", "", system.REC | system.PRIVATE)
        system.mount("host", self.top, "tmpfs", 0, "mode=755")
        for name, path in given.items():
            os.makedirs(f"{self.top}/{name}")
            system.mount(path, f"{self.top}/{name}", "", system.BIND | system.REC)
        user = self._settings["user"]
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        system.dumpable(True)
        return {name: f"{self.top}/{name}" for name in given}

    def _fill(self) -> None:
        python = self._settings["python"]
        for name, text in self._texts.items():
            _write(f"{self.shared}/lib/{name}", text)
        folders = {name: f"{shell.BOX}/lib/{name}" for name in _INSIDE}
        _write(f"{self.shared}/lib/start.py", code(folders, "bwrap.zygote", "int(sys.argv[1])"))
        _write(f"{self.shared}/lib/pytest_cold.py", shell.COLD)
        _write(f"{self.shared}/lib/warm/test_patchgrad_warm.py", _WARM_TEST)
        with open(f"{self.shared}/lib/rules", "wb") as rules:
            rules.write(filter.program())
        for name, text in shell.programs(python).items():
            _write(f"{self.shared}/bin/{name}", text, 0o755)
        _write(f"{self.shared}/bin/{python}", "")
        site = f"{self.shared}/{self._settings['site']}"
        for name in os.listdir(site):
            if name.startswith(_PLUGIN):
                _write(f"{self.shared}/plugin/{name}", _read(f"{site}/{name}"))
        for name, text in shell.ETC.items():
            _write(f"{self.shared}/etc/{name}", text)
        for name in ("ld.so.cache", "ld.so.conf", "localtime", "mime.types", "services", "protocols"):
            with contextlib.suppress(OSError):
                shutil.copyfile(f"/etc/{name}", f"{self.shared}/etc/{name}")


class Nest:
    """Answers the trainer's requests; those for one sandbox come one at a time, those for different ones in any order."""

    def __init__(self, control: socket.socket, settings: Header, place: Place) -> None:
        self._control, self._settings, self._place = control, settings, place
        self._roots = Roots(f"{place.top}/roots", settings["roots"])
        self._templates: dict[str, Template] = {}
        self._idle: dict[str, list[Cell]] = {}
        self._episodes: dict[int, tuple[Cell, str]] = {}
        self._asking: dict[int, asyncio.Task[Frame]] = {}
        self._made = 0
        self._warm = False
        self._sending, self._states = asyncio.Lock(), asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until the trainer is gone."""
        loop, reader, whole = asyncio.get_running_loop(), Reader(), Whole()
        while True:
            try:
                data = await loop.sock_recv(self._control, 1 << 20)
            except ConnectionError:  # a trainer that left with answers unread
                return
            if not data:
                return
            for header, body in whole.feed(reader.feed(data)):
                task = asyncio.create_task(self._answer(header, body))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, header: Header, body: bytes) -> None:
        async with self._states if header["op"] == "snapshot" else contextlib.nullcontext():  # one state at a time is held here
            answer, content = await self._done(header, body)
            with contextlib.suppress(ConnectionError):  # the trainer is gone, and `serve` ends for that reason
                for part in split({"id": header["id"], **answer}, content):
                    async with self._sending:
                        await asyncio.get_running_loop().sock_sendall(self._control, part)

    async def _done(self, header: Header, body: bytes) -> Frame:
        operations: dict[str, Callable[[Header, bytes], Awaitable[Frame]]] = {
            "prepare": self._prepare,
            "root": self._root,
            "open": self._open,
            "close": self._close,
            "reset": self._reset,
            "run": self._run,
            "exec": self._exec,
            "read": self._read,
            "write": self._write,
            "seal": self._seal,
            "snapshot": self._snapshot,
        }
        try:
            return await operations[header["op"]](header, body)
        except Unkept as error:
            return {"lost": str(error)}, b""
        except CellDied as error:
            return {"lost": _TOO_MUCH} if self._ran_out(header) else {"fault": str(error)}, b""
        except OSError as error:
            return {"errno": error.errno, "error": error.strerror, "path": header.get("path", error.filename)}, b""
        except ValueError as error:
            return {"task": str(error)}, b""
        except Exception as error:  # whoever asked must not wait for an answer that never comes
            return {"fault": repr(error)}, b""

    def _ran_out(self, header: Header) -> bool:
        """Did the episode that is asked end its own cell, by taking more memory than there is for it?"""
        episode = self._episodes.get(header.get("sandbox", 0))
        return episode is not None and episode[0].ran_out

    async def _cell(self, kind: str) -> Cell:
        idle = self._idle.get(kind, [])
        while idle:
            cell = idle.pop(0)  # the oldest: the last one may still be on its way
            with contextlib.suppress(CellDied):  # it may have ended before it was born
                await cell.ready()
                if not cell.gone:
                    return cell
            cell.kill()
        cell = self._boot(kind)
        with contextlib.suppress(CellDied):  # its zygote may have ended with the order unread; the next one is forked by another
            await cell.ready()
            return cell
        return self._boot(kind)

    def _boot(self, kind: str) -> Cell:
        self._made += 1
        return Cell(f"{self._place.top}/cells/{self._made}", kind, self._template(kind), self._settings["group"], self._place.bare)

    def _template(self, kind: str) -> Template:
        found = self._templates.pop(kind, None)
        if found is not None and found.gone:
            found.kill()
            found = None
        if found is None:
            self._made += 1
            found = Template(f"{self._place.top}/templates/{self._made}", self._place.shared, self._settings, kind)
        self._templates[kind] = found  # the last one used stands last
        unused = [name for name, template in self._templates.items() if name not in ("", kind) and not template.cells]
        for name in unused[: max(0, len(self._templates) - _KEPT)]:
            self._templates.pop(name).kill()
        return found

    async def _prepare(self, header: Header, body: bytes) -> Frame:
        """Boots cells ahead of time, warm."""
        self._warm = True
        await self._template("").warm()
        idle = self._idle.setdefault("", [])
        while idle and not idle[-1].warm:
            idle.pop().kill()
        made = [self._boot("") for _ in range(header["cells"] - len(idle))]
        await asyncio.gather(*(cell.ready() for cell in made))
        idle += made
        return {}, b""

    async def _give_back(self, cell: Cell) -> None:
        """Ends a cell that has served, and boots one in its place."""
        await cell.end()
        with contextlib.suppress(CellDied, OSError):  # without room for another now, whoever opens next boots one
            self._idle[cell.kind] = [*self._idle.pop(cell.kind, []), self._boot(cell.kind)]  # the kind of last use stands last
        others = [cells for kind, cells in self._idle.items() if kind]
        if sum(map(len, others)) > _KEPT:
            next(cells for cells in others if cells).pop(0).kill()

    async def _root(self, header: Header, body: bytes) -> Frame:
        """Unpacks an archive, runs the task's set-up and makes the first commit, all that the task decides inside a cell."""
        key, limits = header["key"], header["limits"]
        kind = header["kind"]
        of_image = kind.startswith("images/")
        if of_image:
            with open(f"{self._place.shared}/{kind}/testbed.tar", "rb") as file:
                body = file.read()
        path = self._roots.unpack(key, body, limits["disk"] + 16 * len(body), outward=of_image)
        if self._warm and not of_image:
            await self._template(kind).warm()
        cell = await self._cell(kind)
        try:
            await cell.lay(path, limits, writable=True)
            await cell.open(limits)
            for command in [*header["setup"], shell.first_commit(archive=not of_image)]:
                request = {"op": "exec", "argv": ["bash", "-c", command], "env": {}, "timeout": header["seconds"], "wall": header["wall"]}
                answer, text = await cell.ask(request, b"", header["wall"] + 10)
                if answer["code"] == 128 + signal.SIGKILL:  # nobody's mistake, or another's: what is tried again may well work
                    raise CellDied(f"a set-up command was killed: {command.strip()[:200]!r}")
                if answer["code"] != 0:
                    raise ValueError(f"set-up command failed: {command.strip()[:200]!r}: {text[-500:].decode(errors='replace').strip()}")
        except BaseException:
            cell.kill()
            self._roots.drop(key)
            raise
        await self._give_back(cell)
        self._roots.ready(key)
        return {}, b""

    async def _open(self, header: Header, body: bytes) -> Frame:
        root = self._roots.take(header["key"])
        if root is None:
            return {"known": False}, b""
        cell = None
        try:
            cell = await self._cell(header["kind"])
            await cell.lay(root, header["limits"])
            tree.apply(f"{cell.files}/testbed", unpacked(body))
            await cell.open(header["limits"], header["directory"], header["shell"])
        except BaseException:
            if cell is not None:
                cell.kill()
            self._roots.give(header["key"])
            raise
        self._episodes[header["sandbox"]] = cell, header["key"]
        return {"known": True}, b""

    async def _close(self, header: Header, body: bytes) -> Frame:
        cell, key = self._episodes.pop(header["sandbox"])
        await self._give_back(cell)
        self._roots.give(key)
        return {}, b""

    async def _reset(self, header: Header, body: bytes) -> Frame:
        cell, key = self._episodes[header["sandbox"]]
        await cell.reset()
        await cell.lay(self._roots.path(key), header["limits"])
        await cell.open(header["limits"])
        return {}, b""

    async def _run(self, header: Header, body: bytes) -> Frame:
        return await self._episodes[header["sandbox"]][0].run(body, header["timeout"], header["wall"])

    async def _exec(self, header: Header, body: bytes) -> Frame:
        request = {name: header[name] for name in ("op", "argv", "env", "timeout", "wall")}
        return await self._episodes[header["sandbox"]][0].ask(request, body, header["wall"] + 15)

    async def _read(self, header: Header, body: bytes) -> Frame:
        return {}, tree.read(self._episodes[header["sandbox"]][0].files, header["path"])

    async def _write(self, header: Header, body: bytes) -> Frame:
        self._episodes[header["sandbox"]][0].write(header["path"], body)
        return {}, b""

    async def _seal(self, header: Header, body: bytes) -> Frame:
        self._episodes[header["sandbox"]][0].seal([os.fsdecode(path) for path in body.split(b"\0") if path])
        return {}, b""

    async def _snapshot(self, header: Header, body: bytes) -> Frame:
        cell, key = self._episodes[header["sandbox"]]
        return {"outside": cell.outside()}, packed(changes(cell.upper, self._roots.path(key), header["most"]))


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def main(settings: Header) -> None:
    """`settings`: the control socket's number, this folder, the interpreter's prefix and program, the sites, the user."""
    control = socket.socket(fileno=settings["control"])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    place = Place(settings)
    try:
        place.enter()
        os.chdir(place.top)
        nest = Nest(control, settings, place)
    except (OSError, KeyError, StopIteration) as error:
        control.sendall(pack({"id": 0, "refused": str(error)}))
        sys.exit(1)
    control.sendall(pack({"id": 0}))
    control.setblocking(False)
    asyncio.run(nest.serve())
    os._exit(0)
