"""Links to replicas without a process of their own: what a test slows, freezes, breaks and ends as it likes."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import replace

from patchgrad.errors import HostLost
from patchgrad.links import Message, Notice
from patchgrad.links.processes import ProcessLink
from patchgrad.policies.replicas.far import FAR, Far
from patchgrad.policies.replicas.messages import Load, Open, Question, Want

ELSEWHERE = "/elsewhere"


async def in_a_process(number: int) -> ProcessLink:
    return ProcessLink(f"replica {number}", FAR)


class HereLink:
    """The far end lives in the same loop; messages pickle. With `blind` it does not see the folders of this machine.

    `heard` is asked before each message that it gets, and may end or freeze it.
    """

    def __init__(self, name: str, *, blind: bool = False, heard: Callable[[HereLink, Message], None] = lambda link, message: None) -> None:
        self.name, self._blind, self._heard = name, blind, heard
        self._came: asyncio.Queue[Message | None] = asyncio.Queue()
        self._waiting: list[Message] = []
        self.frozen = self.over = False
        self.said: list[Message] = []
        self.far = Far(self._say)

    def _say(self, message: Message) -> None:
        if isinstance(message, Want) and self._blind:
            message = replace(message, path=message.path.removeprefix(ELSEWHERE))
        if not self.over:
            self._came.put_nowait(pickle.loads(pickle.dumps(message)))

    def post(self, message: Message) -> None:
        self.said.append(message)
        if self._blind and isinstance(message, Question) and isinstance(message.content, Open | Load):
            weights = replace(message.content.weights, folder=ELSEWHERE + message.content.weights.folder)
            message = replace(message, content=replace(message.content, weights=weights))
        self._heard(self, message)
        if self.frozen:
            self._waiting.append(message)
        elif not self.over:
            self.far.take(pickle.loads(pickle.dumps(message)))

    def thaw(self) -> None:
        """It goes on with what has come meanwhile."""
        self.frozen = False
        for message in self._waiting:
            self.far.take(message)
        self._waiting.clear()

    async def received(self) -> Message:
        message = await self._came.get()
        if message is None:
            self._came.put_nowait(None)
            raise HostLost(f"{self.name} is gone")
        return message

    def leave(self) -> None:
        """Its machine is about to end."""
        self._say(Notice("a spot machine"))

    def kill(self) -> None:
        self.over = True
        self._came.put_nowait(None)

    async def close(self) -> None:
        self.kill()
        await self.far.close()
