"""Links to processes of this machine that end with whoever has started them.

python -m patchgrad.links.processes 5 package.module:guest ARGUMENT...      5 is a socket that the starter holds the other end of
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection

from patchgrad.errors import HostLost
from patchgrad.links.link import CLOSING, SILENCE, Beat, Message, beating, made
from patchgrad.links.spending import ELSEWHERE

PR_SET_PDEATHSIG = 1


class ProcessLink:
    """A fresh process, with a guest of this kind in it. It ends when the thread that made this ends, and imports what this process can."""

    def __init__(
        self, name: str, kind: str, *arguments: str, silence: float = SILENCE, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self._silence = name, silence
        here, there = socket.socketpair()
        with there:
            paths = os.pathsep.join(filter(None, sys.path))
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(there.fileno()), kind, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
                start_new_session=True,  # a Ctrl-C is for the starter, which then ends this
            )
        self._pipe = Connection(here.detach())
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._came: asyncio.Queue[Message | None] | None = None
        threading.Thread(target=self._write, daemon=True).start()

    def post(self, message: Message) -> None:
        """Returns at once, whatever the process does: one that is frozen reads nothing."""
        self._out.put(pickle.dumps(message))

    def _write(self) -> None:
        with suppress(OSError):
            while (content := self._out.get()) is not None:
                self._pipe.send_bytes(content)
            with socket.socket(fileno=os.dup(self._pipe.fileno())) as end:
                end.shutdown(socket.SHUT_WR)

    async def received(self) -> Message:
        if self._came is None:
            self._came = asyncio.Queue()
            threading.Thread(target=self._read, args=(asyncio.get_running_loop(), self._came), daemon=True).start()
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    message = await self._came.get()
            except TimeoutError:
                raise HostLost(f"{self.name} gave no sign of life for {self._silence:.0f} s: it is frozen or cut off") from None
            if message is None:
                self._came.put_nowait(None)
                raise HostLost(f"{self.name} is gone")
            if not isinstance(message, Beat):
                return message
            ELSEWHERE.heard("sampling", message.spent)

    def _read(self, loop: asyncio.AbstractEventLoop, came: asyncio.Queue[Message | None]) -> None:
        message: Message | None = None
        while True:
            try:
                message = pickle.loads(self._pipe.recv_bytes())  # from a process that this one has started
            except (EOFError, OSError):
                message = None
            try:
                loop.call_soon_threadsafe(came.put_nowait, message)
            except RuntimeError:  # the loop is over
                return
            if message is None:
                return

    def kill(self) -> None:
        """The process is no more when this returns."""
        self.process.kill()
        self.process.wait()
        self._out.put(None)

    async def close(self) -> None:
        self._out.put(None)
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, CLOSING)
        self.kill()


def main(descriptor: int, kind: str, *arguments: str) -> None:
    """A guest, until the other end is closed; then it is closed too."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a frozen process would not see that its starter is gone
    asyncio.run(_served(Connection(descriptor), kind, arguments))
    os._exit(0)  # threads of a guest may wait for something that no longer comes


async def _served(pipe: Connection, kind: str, arguments: tuple[str, ...]) -> None:
    loop, over, turn = asyncio.get_running_loop(), asyncio.Event(), threading.Lock()

    def post(message: Message) -> None:
        with turn, suppress(OSError):
            pipe.send_bytes(pickle.dumps(message))

    guest = made(kind, post, *arguments)

    def read() -> None:
        with suppress(EOFError, OSError):
            while True:
                loop.call_soon_threadsafe(guest.take, pickle.loads(pipe.recv_bytes()))
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=read, daemon=True).start()
    alive = asyncio.create_task(beating(post))
    await over.wait()
    alive.cancel()
    await guest.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
