"""Hosts as processes of this machine, without a cluster: what a test kills, stops and adds as it likes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from patchgrad.errors import HostLost
from patchgrad.rollouts.executors.hosts import Link
from patchgrad.rollouts.executors.hosts.host import Host
from patchgrad.rollouts.executors.hosts.messages import Beat, Message


class ProcessHosts:
    """So many hosts with so many cells each; `add` brings one more. One that is silent for so many seconds is lost."""

    def __init__(self, count: int = 2, cells: int = 4, silence: float = 60.0) -> None:
        self._cells, self._silence = cells, silence
        self.links: list[ProcessLink] = []
        self._new: asyncio.Queue[ProcessLink] = asyncio.Queue()
        self._folder = tempfile.TemporaryDirectory()
        for _ in range(count):
            self.add()

    @property
    def trouble(self) -> str:
        return ""

    def add(self) -> None:
        """One more."""
        link = ProcessLink(f"host {len(self.links)}", self._cells, self._silence, Path(self._folder.name))
        self.links.append(link)
        self._new.put_nowait(link)

    async def joined(self) -> Link:
        link = await self._new.get()
        link.start()
        return link

    async def close(self) -> None:
        for link in self.links:
            link.kill()
            link.end()
        self._folder.cleanup()


class ProcessLink:
    """One process."""

    def __init__(self, name: str, cells: int, silence: float, folder: Path) -> None:
        self.name, self.cells, self._silence = name, cells, silence
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, folder / name), daemon=True)
        self.process.start()
        theirs.close()
        self._came: asyncio.Queue[Message | None] = asyncio.Queue()
        self.said: list[Message] = []

    def start(self) -> None:
        """Reads what it says from now on."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        message: Message | None = None
        while True:
            try:
                message = pickle.loads(self._pipe.recv_bytes())
            except (EOFError, OSError):
                message = None
            try:
                loop.call_soon_threadsafe(self._came.put_nowait, message)
            except RuntimeError:  # the test is over
                return
            if message is None:
                return

    def post(self, message: Message) -> None:
        with suppress(OSError):
            self._pipe.send_bytes(pickle.dumps(message))

    async def received(self) -> Message:
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    message = await self._came.get()
            except TimeoutError:
                raise HostLost(f"{self.name} gives no sign of life") from None
            if message is None:
                raise HostLost(f"{self.name} is gone")
            if not isinstance(message, Beat):
                self.said.append(message)
                return message

    def signal(self, number: signal.Signals) -> None:
        """As the kernel or a person would."""
        if self.process.pid is not None:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        """Nothing of it is left."""
        self.process.join()
        self._pipe.close()


def _serve(pipe: Connection, folder: Path) -> None:
    asyncio.run(_served(pipe, folder))


async def _served(pipe: Connection, folder: Path) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    host = Host(lambda message: pipe.send_bytes(pickle.dumps(message)), folder)

    def read() -> None:
        while True:
            try:
                message = pickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                loop.call_soon_threadsafe(over.set)
                return
            loop.call_soon_threadsafe(host.take, message)

    threading.Thread(target=read, daemon=True).start()
    beating = asyncio.create_task(host.beat())
    await over.wait()
    beating.cancel()
    await host.close()
