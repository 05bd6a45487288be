"""Hosts as processes of this machine, without a cluster: what a test kills, stops and adds as it likes."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

from patchgrad.links import Message
from patchgrad.links.processes import ProcessLink
from patchgrad.rollouts.executors.hosts import HostLink
from patchgrad.rollouts.executors.hosts.host import CACHED


class ProcessHosts:
    """So many hosts with so many cells each; `add` brings one more. One that is silent for so many seconds is lost."""

    def __init__(self, count: int = 2, cells: int = 4, silence: float = 60.0) -> None:
        self._cells, self._silence = cells, silence
        self.links: list[ProcessHost] = []
        self._new: asyncio.Queue[ProcessHost] = asyncio.Queue()
        self._folder = tempfile.TemporaryDirectory()
        for _ in range(count):
            self.add()

    @property
    def trouble(self) -> str:
        return ""

    def add(self) -> None:
        """One more."""
        link = ProcessHost(f"host {len(self.links)}", self._cells, self._silence, Path(self._folder.name))
        self.links.append(link)
        self._new.put_nowait(link)

    async def joined(self) -> HostLink:
        return await self._new.get()

    async def close(self) -> None:
        for link in self.links:
            link.kill()
        self._folder.cleanup()


class ProcessHost(ProcessLink):
    """One process. `said` is what has been heard of it."""

    def __init__(self, name: str, cells: int, silence: float, folder: Path) -> None:
        super().__init__(name, CACHED, str(folder / name), silence=silence)
        self.cells = cells
        self.said: list[Message] = []

    async def received(self) -> Message:
        self.said.append(message := await super().received())
        return message

    def signal(self, number: signal.Signals) -> None:
        """As the kernel or a person would."""
        os.kill(self.process.pid, number)
