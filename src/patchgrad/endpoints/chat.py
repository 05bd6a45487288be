"""One question, one answer, before a deadline: what is worth another try is tried again, what is not is named.

    too many requests (429)                    again until the deadline, after as long as the server says
    overloaded, broken off, unreadable         again, at most `TRIES` times, each pause twice the last
    a page, a redirection                      the same where it has answered before, else EndpointRefused
    the conversation is too long               ContextFault
    the key, the model or a parameter is wrong EndpointRefused
    it refuses words where it took others      PolicyFault
    no answer before the deadline              PolicyFault

The standard library asks, so that an evaluation at an endpoint needs nothing to be installed. A question is a thread of its own that
nothing waits for at the end, since an answer can take minutes and the one who asked may have left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any, TypeVar

from patchgrad.endpoints.address import checked_address, checked_key
from patchgrad.endpoints.response import Again, Answer, judge
from patchgrad.errors import ConfigError, EndpointRefused, PolicyFault
from patchgrad.links.daemon import in_a_daemon
from patchgrad.values import Message, well_formed

T = TypeVar("T")
log = logging.getLogger(__name__)
TRIES = 6
LONGEST = 60.0  # seconds between two tries
LARGEST = 64 << 20
SECRET = 8  # letters of a key from which on it is one: others, such as "any" or "EMPTY", are words
_ABOUT_THE_WORDS = frozenset({400, 403, 413, 422, 451})


class Chat:
    """A model at an address: `await Chat("http://localhost:8000/v1", "Qwen/Qwen3-32B").ask([Message("user", "Hello")], {})`.

    `seconds` is the deadline of a question with all its tries, `pause` the first of them. Parameters are sent as they are given.
    """

    def __init__(self, url: str, model: str, key: str = "", *, seconds: float = 600.0, pause: float = 1.0) -> None:
        self.url, self.model, self.seconds = f"{url.rstrip('/')}/chat/completions", model, seconds
        self._key, self._pause, self._heard = checked_key(key), pause, False
        if model != well_formed(model):
            raise ConfigError(f"{model!a} is no model's name, since it is no Unicode: name it as the endpoint does.")
        here = checked_address(url).hostname in ("localhost", "127.0.0.1", "::1")
        self._opener = urllib.request.build_opener(_Straight, *([urllib.request.ProxyHandler({})] if here else []))

    async def ask(self, messages: Sequence[Message], parameters: Mapping[str, Any]) -> Answer:
        """The answer to a conversation. Raises as the table above says."""
        told = [{"role": message.role, "content": message.content} for message in messages]
        body = json.dumps({"model": self.model, "messages": told, **parameters}).encode()
        deadline, asked, broke = time.monotonic() + self.seconds, 0, 0
        while True:
            found = await self._once(body, deadline)
            if isinstance(found, Answer):
                self._heard = True
                return found
            if found.refusal and not self._heard:
                raise found.refusal
            asked, broke = asked + 1, broke + (not found.patient)
            pause = self.until_next(found, asked)
            if broke >= TRIES or time.monotonic() + pause >= deadline:
                raise PolicyFault(f"{self.url} gave no answer that can be used, asked {asked} times: {found.reason}.")
            if not self._heard:
                log.warning("%s: %s; it is asked again in %.0f seconds", self.url, found.reason, pause)
            await asyncio.sleep(pause)

    def until_next(self, found: Again, asked: int) -> float:
        """Seconds, never none: as long as the server says, or each time twice as long."""
        if found.after is not None:
            return max(found.after, self._pause)
        return min(LONGEST, self._pause * 2.0 ** min(asked, 16)) * random.uniform(0.75, 1.25)

    async def _once(self, body: bytes, deadline: float) -> Answer | Again:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await in_a_daemon(lambda: self._post(body, deadline))
        except TimeoutError:
            return Again(f"it was silent for {self.seconds:g} seconds")
        except EndpointRefused as refused:
            if self._heard and refused.status in _ABOUT_THE_WORDS:  # the same parameters were taken before
                raise PolicyFault(str(refused)) from refused
            raise

    def _post(self, body: bytes, deadline: float) -> Answer | Again:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        request = urllib.request.Request(self.url, body, headers)
        response: Any = None
        try:
            try:
                response = self._opener.open(request, timeout=max(0.1, deadline - time.monotonic()))
            except urllib.error.HTTPError as error:
                response = error
            with response:
                status, told, said = response.status, response.headers, _read(response, deadline)
        except TimeoutError:
            raise
        except (OSError, HTTPException, ValueError) as error:  # the last is what the library says of a proxy that cannot be used
            reason = getattr(error, "reason", error)
            if self._heard or response is not None:
                return Again(f"the connection broke ({reason})")
            raise EndpointRefused(f"{self.url} cannot be reached ({reason}): name an endpoint that speaks OpenAI's protocol.", 0) from error
        return judge(self.url, status, told, self._without_key(said))

    def _without_key(self, said: bytes) -> bytes:
        """What the server says without the key, which some servers quote where they refuse it: their words are told and kept."""
        return said.replace(self._key.encode(), b"[the key]") if len(self._key) >= SECRET else said


def _read(response: Any, deadline: float) -> bytes:
    """The whole body; a server that sends a byte a minute is as late as one that sends none."""
    parts, size = [], 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > LARGEST:
            raise OSError(f"an answer of more than {LARGEST >> 20} MiB")
    if response.length:
        raise OSError(f"the answer ended {response.length} bytes early")
    return b"".join(parts)


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: a question that was posted would arrive without its body."""

    def redirect_request(self, *_: Any) -> None:
        return None
