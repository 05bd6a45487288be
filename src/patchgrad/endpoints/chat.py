"""One question, one answer, before a deadline: what is worth another try is tried again, what is not is named.

    too many requests (429)                    again until the deadline, after as long as the server says
    overloaded, broken off, unreadable         again, at most `TRIES` times, each pause twice the last
    the conversation is too long               ContextFault
    the key, the model or a parameter is wrong EndpointRefused
    it refuses words where it took others      PolicyFault
    no answer before the deadline              PolicyFault

The standard library asks, so that an evaluation at an endpoint needs nothing to be installed. A question is a thread of its own that
nothing waits for at the end, since an answer can take minutes and the one who asked may have left.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import Any, Literal, TypeVar

from patchgrad.errors import ConfigError, ContextFault, EndpointRefused, PolicyFault
from patchgrad.values import Message, Usage

T = TypeVar("T")
KEY = "PATCHGRAD_KEY"  # the variable of the environment that holds a key
TRIES = 6
LONGEST = 60.0  # seconds between two tries
LARGEST = 64 << 20
_ABOUT_THE_WORDS = frozenset({400, 413, 422})
_PASSING = frozenset({408, 409, 425, 429, *range(500, 600)})
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|(?:maximum|model'?s) context length|available context size"
    r"|(?:prompt|input|request)[^.]{0,60}(?:too long|longer than the model|exceeds the (?:maximum|context))",
    re.IGNORECASE,
)
_ADVICE = {401: f"put its key into {KEY}", 403: f"put its key into {KEY}", 404: "name the address up to /v1, and a model that it serves"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, whether it came to an end, and its tokens, if the server counted them."""

    text: str
    finish: Literal["stop", "length"]
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Again:
    """A reason to ask once more, `after` so many seconds where the server says when."""

    reason: str
    after: float | None = None
    patient: bool = False


class Chat:
    """A model at an address: `await Chat("http://localhost:8000/v1", "Qwen/Qwen3-32B").ask([Message("user", "Hello")], {})`.

    `seconds` is the deadline of a question with all its tries, `pause` the first of them. Parameters are sent as they are given.
    """

    def __init__(self, url: str, model: str, key: str = "", *, seconds: float = 600.0, pause: float = 1.0) -> None:
        self.url, self.model, self.seconds = f"{url.rstrip('/')}/chat/completions", model, seconds
        self._key, self._pause, self._heard = key, pause, False
        host = urllib.parse.urlsplit(url)
        if host.scheme not in ("http", "https") or not host.hostname:
            raise ConfigError(f"{url} is no address of an endpoint: name it as in http://localhost:8000/v1.")
        here = host.hostname in ("localhost", "127.0.0.1", "::1")
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
            asked, broke = asked + 1, broke + (not found.patient)
            own = min(LONGEST, self._pause * 2.0**broke) * random.uniform(0.75, 1.25)
            pause = own if found.after is None else found.after
            if broke >= TRIES or time.monotonic() + pause >= deadline:
                raise PolicyFault(f"{self.url} gave no answer that can be used, asked {asked} times: {found.reason}.")
            await asyncio.sleep(pause)

    async def _once(self, body: bytes, deadline: float) -> Answer | Again:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await _apart(lambda: self._post(body, deadline))
        except TimeoutError:
            return Again(f"it was silent for {self.seconds:g} seconds")
        except EndpointRefused as refused:
            if self._heard and refused.status in _ABOUT_THE_WORDS:  # the same parameters were taken before
                raise PolicyFault(str(refused)) from refused
            raise

    def _post(self, body: bytes, deadline: float) -> Answer | Again:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        request = urllib.request.Request(self.url, body, headers)
        try:
            try:
                response = self._opener.open(request, timeout=max(0.1, deadline - time.monotonic()))
            except urllib.error.HTTPError as error:
                response = error
            with response:
                return judge(self.url, response.status, response.headers, _read(response, deadline))
        except TimeoutError:
            raise
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            if self._heard:
                return Again(f"the connection broke ({reason})")
            raise EndpointRefused(f"{self.url} cannot be reached ({reason}): name an endpoint that speaks OpenAI's protocol.", 0) from error


def judge(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Answer | Again:
    """What an HTTP response means; see the table above."""
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    failed = told.get("error") if isinstance(told, dict) else None
    if status == 200 and not failed:
        return _answer(told) or Again("an answer without a message")
    words = _words(failed if failed else told if isinstance(told, dict) else None, body)
    if _TOO_LONG.search(body.decode(errors="replace")):
        raise ContextFault(f"{url} says that the conversation is too long: {words}")
    if status in _PASSING and b"insufficient_quota" not in body:
        return Again(f"it answered {status}: {words}", _seconds(headers.get("Retry-After")), status == 429)
    raise EndpointRefused(f"{url} answered {status}: {words}; {_ADVICE.get(status, 'change what it refuses')}.", status)


def _answer(told: Any) -> Answer | None:
    try:
        choice = told["choices"][0]
        text = choice["message"].get("content") or ""
        used = told.get("usage") or {}
        read, said = used.get("prompt_tokens"), used.get("completion_tokens")
        usage = Usage(read, said) if isinstance(read, int) and isinstance(said, int) else None
        return Answer(text, "length" if choice.get("finish_reason") == "length" else "stop", usage) if isinstance(text, str) else None
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


def _words(told: Any, body: bytes) -> str:
    """The server's own words in one line."""
    message = told.get("message") or told.get("detail") if isinstance(told, dict) else told
    text = message if isinstance(message, str) else body.decode(errors="replace")
    return " ".join(text.split())[:300] or "nothing"


def _seconds(after: str | None) -> float | None:
    """`Retry-After`, which is a number of seconds or a date."""
    if not after:
        return None
    try:
        return max(0.0, float(after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - time.time())
    except ValueError:
        return None


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
    return b"".join(parts)


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: a question that was posted would arrive without its body."""

    def redirect_request(self, *_: Any) -> None:
        return None


async def _apart(work: Callable[[], T]) -> T:
    """The work's result, from a thread that ends by itself: who asks can be cancelled, and a program can end meanwhile."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(told: Callable[[], None]) -> None:
        if not done.cancelled():
            told()

    def run() -> None:
        try:
            told = partial(done.set_result, work())
        except BaseException as raised:  # whatever it is, who waits must hear of it
            told = partial(done.set_exception, raised)
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, told)

    threading.Thread(target=run, name="endpoint", daemon=True).start()
    return await done
