"""Sandboxes from bubblewrap: the default backend. Real isolation for an ordinary user, warm cells, millisecond episodes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from patchgrad.contracts import Capabilities, Result, Sandbox, patience
from patchgrad.errors import MissingDependency, SandboxFault, TaskError
from patchgrad.packages.sites import ensure_site
from patchgrad.sandboxes.admission import Admission
from patchgrad.sandboxes.archives import archive, preparation, root_key, undigested
from patchgrad.sandboxes.bwrap import cgroups
from patchgrad.sandboxes.bwrap.images import Images
from patchgrad.sandboxes.bwrap.link import Link, program
from patchgrad.sandboxes.folders import found, shown
from patchgrad.sandboxes.linux.answers import Standing, below, result
from patchgrad.sandboxes.linux.entries import packed, unpacked
from patchgrad.sandboxes.linux.frames import Frame, Header
from patchgrad.sandboxes.programs import ensure_programs
from patchgrad.values import Snapshot, Task

_SLACK = 30.0  # the nest has its own, shorter deadlines; this one is for a nest that hangs
_PER_NEST = 64


class BwrapSandboxes:
    """Isolated copies of a task's repository on this host, by user namespaces. Needs the `bubblewrap` program and nothing more.

    `open` waits while the host is short of memory (`Admission`), and when `cells` are open. Nothing starts before the first `open`. Memory
    is watched, not reserved: a process is limited by its address space, and all of a sandbox by a scan ten times a second. Where a cgroup
    bounds the sandbox, a process may raise that limit of its own.

    Pytest is loaded where it is first called, for each cell; `warm` loads it once a nest, before its first cell, which waits.

    All sandboxes, those that grade included, have these `folders` of the host at the same path, read-only (`sandboxes.folders`).

        sandboxes = BwrapSandboxes(cells=8)
        sandbox = await sandboxes.open(task)
        result = await sandbox.run("pytest -q")
    """

    def __init__(
        self, cells: int = 32, roots: int = 4 << 30, images: Images | None = None, warm: bool = False, *, folders: Sequence[str] = ()
    ) -> None:
        self._cells, self._roots, self._images, self._warm = cells, roots, images or Images(), warm
        self._folders = shown(folders)
        self._made = partial(BwrapSandboxes, cells, roots, images, warm, folders=self._folders)
        self._links: list[Link] = []
        self._load: list[int] = []
        self._numbers = itertools.count(1)
        self._free, self._door = asyncio.Semaphore(cells), Admission()
        self._starting = asyncio.Lock()
        self._making: dict[tuple[int, str], asyncio.Lock] = {}
        self._sites: dict[tuple[str, ...], str] = {(): ""}

    def __reduce__(self) -> tuple[Any, ...]:
        """On another machine it is one with nothing open."""
        return self._made, ()

    def probe(self) -> Capabilities:
        """What is enforced; raises `MissingDependency` when bubblewrap is not installed, `ConfigError` for a folder that is not there."""
        program()
        found(self._folders)
        memory = "memory is limited by a cgroup" if cgroups.place() else "memory is watched, not reserved by a cgroup"
        notes = (memory, "limits on time count work, and the wall twelve times as long")
        programs = ensure_programs().contents
        return Capabilities("bwrap", True, True, True, True, True, True, notes, work=True, seal=True, programs=programs)

    async def open(self, task: Task, state: Snapshot | None = None) -> BwrapSandbox:
        """A sandbox in the repository's first state, or in `state`; raises `TaskError` when the archive is not what it claims."""
        kind = await self._kind(task)
        await self._free.acquire()
        index = -1
        try:
            await self._door.enter(task.limits.memory)
        except BaseException:
            self._free.release()
            raise
        try:
            index = await self._pick()
            link = self._links[index]
            number = next(self._numbers)
            await self._enter(index, task, number, state, kind)
        except BaseException:
            self._release(index)
            raise
        return BwrapSandbox(self, link, index, number, task, Standing.at(state))

    async def _kind(self, task: Task) -> str:
        """What the cell of a task is made of, as a folder that nests know; nothing for the host's programs with pytest alone."""
        if task.repository.kind != "archive":
            return f"images/{await asyncio.to_thread(self._image, task)}"
        if task.packages not in self._sites:
            try:
                self._sites[task.packages] = f"sites/{(await asyncio.to_thread(ensure_site, task.packages)).name}"
            except MissingDependency as error:
                raise TaskError(f"task {task.id!r}: {error}") from error
        return self._sites[task.packages]

    def _image(self, task: Task) -> str:
        """The folder of the image that the task's programs come from, laid out now where its archive is at hand."""
        repository = task.repository
        if repository.kind != "image":
            raise TaskError(
                f"task {task.id!r} has a repository of kind {repository.kind!r}; the bwrap sandbox needs an archive or an image"
            )
        if not repository.digest:
            raise TaskError(undigested(task))
        image = self._images.find(repository.digest)
        if image is None and os.path.exists(repository.location):
            image = self._images.add(Path(repository.location), repository.digest)
        if image is None:
            raise TaskError(
                f"task {task.id!r}: the image {repository.location}@{repository.digest} is not on this machine; bring it as an archive "
                "(`skopeo copy docker://NAME@DIGEST oci-archive:FILE`), and say where: `Images().add(FILE)`, or FILE as the task's location"
            )
        return image.root.parent.name

    async def prepare(self, cells: int) -> None:
        """Boots so many cells ahead of time, with pytest loaded, so that the first `open`s wait for nothing; `close` ends them."""
        self._load[await self._pick()] -= 1  # which starts the nests
        share = -(-min(cells, self._cells) // len(self._links))
        await asyncio.gather(*(link.ask({"op": "prepare", "cells": share}, b"", 10 * _SLACK) for link in self._links))

    async def _pick(self) -> int:
        async with self._starting:
            for index, link in enumerate(self._links):
                if link.gone:
                    await link.close()
                    self._links[index] = await self._start()
            while len(self._links) * _PER_NEST < self._cells:
                self._links.append(await self._start())
                self._load.append(0)
        index = min(range(len(self._links)), key=self._load.__getitem__)
        self._load[index] += 1
        return index

    async def _start(self) -> Link:
        link = Link(self._roots, self._images.folder, found(self._folders))
        await link.start()
        if self._warm:
            await link.ask({"op": "prepare", "cells": 0}, b"", 10 * _SLACK)
        return link

    def _release(self, index: int) -> None:
        if index >= 0:
            self._load[index] -= 1
        self._door.leave()
        self._free.release()

    async def _enter(self, index: int, task: Task, number: int, state: Snapshot | None, kind: str) -> None:
        key = root_key(task)
        limits = _limits(task)
        content = packed(state.entries) if state else b""
        at = Standing.at(state)
        header = {"op": "open", "sandbox": number, "key": key, "limits": limits, "kind": kind, "directory": at.directory, "shell": at.shell}
        link = self._links[index]
        known = (await link.ask(header, content, 2 * _SLACK))[0]["known"]
        if known:
            return
        async with self._making.setdefault((index, key), asyncio.Lock()):
            known = (await link.ask(header, content, 2 * _SLACK))[0]["known"]
            if not known:
                await self._unpack(link, task, key, limits, kind)
                known = (await link.ask(header, content, 2 * _SLACK))[0]["known"]
        if not known:
            raise SandboxFault("the repository was dropped before it was used; raise `roots`")

    async def _unpack(self, link: Link, task: Task, key: str, limits: Header, kind: str) -> None:
        content = b"" if kind.startswith("images/") else await asyncio.to_thread(archive, task)
        seconds = max(task.limits.command_seconds, 60.0)
        wall = patience(seconds)
        request: Header = {"op": "root", "key": key, "limits": limits, "setup": list(preparation(task)), "seconds": seconds, "wall": wall}
        request["kind"] = kind
        try:
            await link.ask(request, content, wall * (len(request["setup"]) + 1) + 2 * _SLACK)
        except TaskError as error:
            raise TaskError(f"task {task.id!r}: the archive {task.repository.location} {error}") from error

    async def close(self) -> None:
        """Ends every nest and so every sandbox that is still open."""
        links, self._links, self._load = self._links, [], []
        for link in links:
            await link.close()


class BwrapSandbox(Sandbox):
    """One episode. Paths are absolute below `/testbed`, `/tmp` or `/dev/shm`, or relative to `/testbed`; others do not exist for `read`,
    and cannot be written to.

    `exec` runs in `/testbed`. Its time-out ends *every* process of the sandbox, the shell included, since what it started may have
    left its group; the next `run` has a new shell in the same folder. `snapshot` takes `/testbed` with `.git`, not `/tmp`.
    """

    def __init__(self, pool: BwrapSandboxes, link: Link, index: int, number: int, task: Task, at: Standing) -> None:
        self._pool, self._link, self._index, self._number, self._task, self._limits = pool, link, index, number, task, task.limits
        self._at = at
        self._closed = False
        self._turn = asyncio.Lock()

    async def run(self, command: str, timeout: float | None = None) -> Result:
        """A command in the agent's shell, with /dev/null as its input. Output of earlier background jobs comes first."""
        seconds = self._limits.command_seconds if timeout is None else timeout
        header = {"op": "run", "timeout": seconds, "wall": patience(seconds)}
        return self._result(await self._ask(header, command.encode(errors="surrogateescape")))

    async def exec(
        self,
        argv: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Result:
        """A fresh process in `/testbed`, its descriptor 3 being the report (at most 8 MiB of it)."""
        seconds = self._limits.command_seconds if timeout is None else timeout
        header = {"op": "exec", "argv": list(argv), "env": dict(env or {}), "timeout": seconds, "wall": patience(seconds)}
        return self._result(await self._ask(header, stdin))

    def _result(self, frame: Frame) -> Result:
        self._at = Standing.told(frame)
        return result(frame)

    async def read(self, path: str) -> bytes:
        """A regular file of at most 64 MiB; `FileNotFoundError`, `IsADirectoryError` or `PermissionError` otherwise."""
        return (await self._ask({"op": "read", "path": below(path)}, b""))[1]

    async def write(self, path: str, content: bytes) -> None:
        """Writes a regular file and makes the folders above it; `OSError` when the disk limit is reached, or for a path outside."""
        await self._ask({"op": "write", "path": below(path)}, content)

    async def seal(self, paths: Iterable[str]) -> None:
        """Mounts files read-only over themselves; a descriptor that was open for writing before still writes."""
        await self._ask({"op": "seal"}, b"".join(os.fsencode(below(path)) + b"\0" for path in paths))

    async def snapshot(self) -> Snapshot:
        """The state of `/testbed`. Its address covers paths, modes and contents, and is `digest()` when nothing differs.

        `SandboxLost` where it would take more than the task's disk when it is laid out again, or has a path that is too long.
        """
        header, body = await self._ask({"op": "snapshot", "most": self._limits.disk}, b"")
        return self._at.snapshot(unpacked(body), header["outside"])

    async def fork(self) -> BwrapSandbox:
        """Another sandbox with these files and a shell like this one's; its processes and `/tmp` are its own."""
        return await self._pool.open(self._task, await self.snapshot())

    async def reset(self) -> None:
        """Back to the repository, in the same cell."""
        await self._ask({"op": "reset", "limits": _limits(self._task)}, b"")
        self._at = Standing()

    async def close(self) -> None:
        """Gives the cell back, clean. Closing twice is no error, nor is a nest that is gone: whoever opens next hears of it."""
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(SandboxFault):
                await self._link.ask({"op": "close", "sandbox": self._number}, b"", 2 * _SLACK)
        finally:
            self._pool._release(self._index)

    async def _ask(self, header: Header, body: bytes) -> Frame:
        if self._closed:
            raise SandboxFault("the sandbox is closed")
        async with self._turn:
            return await self._link.ask({**header, "sandbox": self._number}, body, header.get("wall", 0.0) + _SLACK)


def _limits(task: Task) -> Header:
    return {name: getattr(task.limits, name) for name in ("memory", "disk", "processes", "output")}
