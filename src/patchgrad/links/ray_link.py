"""Links to actors of a Ray cluster, which places them, carries messages and says when one died."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import os
import pickle
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from patchgrad.errors import ClusterFault, HostLost
from patchgrad.links.daemon import in_a_daemon
from patchgrad.links.link import CLOSING, OPENING, SILENCE, Beat, Message, beating, made
from patchgrad.links.notice import noticed
from patchgrad.links.spending import ELSEWHERE

log = logging.getLogger(__name__)


@functools.cache
def sources() -> str:
    """A digest of the package's own modules: two machines that differ in it may differ in what an attempt comes to."""
    root = Path(__file__).parents[1]
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return found.hexdigest()


async def nodes() -> list[dict[str, Any]]:
    """Of the cluster; `ClusterFault` where its head is gone, which Ray finds out by ending this process after a while."""
    try:
        async with asyncio.timeout(SILENCE):
            found: list[dict[str, Any]] = await in_a_daemon(ray.nodes)
    except TimeoutError:
        raise ClusterFault(f"The head of the cluster has not answered for {SILENCE:.0f} s: resume the run when it does.") from None
    except Exception as error:  # of Ray's, whose kinds are not told
        raise ClusterFault(f"The head of the cluster does not answer ({error}): resume the run when it does.") from error
    return found


class Served:
    """The actor: a guest, with its messages in the order in which they were sent."""

    def __init__(self, kind: str, *arguments: str) -> None:
        self._out: asyncio.Queue[Message] = asyncio.Queue()
        self._guest = made(kind, self._out.put_nowait, *arguments)
        self._early: dict[int, bytes] = {}
        self._next = 0

    async def greet(self) -> tuple[str, str]:
        """A digest of the patchgrad that is here, and why this machine is about to end, if it is."""
        return sources(), noticed()

    async def post(self, number: int, messages: bytes) -> None:
        """Messages; calls of an actor that is asynchronous may overtake one another."""
        self._early[number] = messages
        while (content := self._early.pop(self._next, None)) is not None:
            self._next += 1
            try:
                for message in pickle.loads(content):  # from the process that trains
                    self._guest.take(message)
            except Exception:
                log.exception("a message could not be taken")
                os._exit(1)  # nobody would wait for what it was about; an actor that is lost is noticed

    async def mail(self) -> AsyncIterator[bytes]:
        """What the guest says, as long as anybody listens."""
        alive = asyncio.create_task(beating(self._out.put_nowait))
        try:
            while True:
                said = [await self._out.get()]
                while not self._out.empty():
                    said.append(self._out.get_nowait())
                yield pickle.dumps(said)
        finally:
            alive.cancel()

    async def close(self) -> None:
        """It puts away what it has opened."""
        await self._guest.close()


class RayLink:
    """A way to a guest of this kind in an actor, which Ray places by these options."""

    def __init__(self, name: str, options: Mapping[str, Any], kind: str, *arguments: str) -> None:
        self.name = name
        self._actor = actor = ray.remote(Served).options(**options, max_concurrency=1000).remote(kind, *arguments)
        self._mail = actor.mail.options(num_returns="streaming").remote()
        self._came: list[Message] = []
        self._out: list[Message] = []
        self._sent = 0
        self.over = False

    async def opened(self, seconds: float = OPENING) -> None:
        """The actor is there. Raises `ClusterFault` where it is not in this time, has another patchgrad, or is where a machine ends."""
        await nodes()  # without a head there would be no actor to wait for
        try:
            async with asyncio.timeout(seconds):
                there, ends = await self._actor.greet.remote()
        except TimeoutError:
            raise ClusterFault(f"it took {seconds:.0f} s") from None
        except RayError as error:
            raise ClusterFault(str(error)) from error
        if there != sources():
            raise ClusterFault("it has other sources of patchgrad than this process: install the same on all machines")
        if ends:
            raise ClusterFault(f"its machine is about to end ({ends})")

    def post(self, message: Message) -> None:
        """What is posted in one turn of the loop is sent together."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(message)

    def _flush(self) -> None:
        self._actor.post.remote(self._sent, pickle.dumps(self._out))
        self._sent += 1
        self._out = []

    async def received(self) -> Message:
        while not self._came:
            try:
                async with asyncio.timeout(SILENCE):
                    said = pickle.loads(await (await anext(self._mail)))  # from an actor of this run
            except TimeoutError:
                raise HostLost(f"{self.name} gave no sign of life for {SILENCE:.0f} s: it is frozen or cut off") from None
            except (RayError, StopAsyncIteration) as error:
                raise HostLost(f"{self.name} is gone") from error
            for beat in (message for message in said if isinstance(message, Beat)):
                ELSEWHERE.heard("sampling", beat.spent)
            self._came = [message for message in said if not isinstance(message, Beat)]
        return self._came.pop(0)

    def kill(self) -> None:
        """Ray ends the process, and what it has opened ends with it."""
        self.over = True
        with suppress(Exception):
            ray.kill(self._actor, no_restart=True)

    async def close(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(CLOSING):
                await self._actor.close.remote()
        self.kill()
