"""The server that programs of others ask: on this machine alone, in a thread of its own, one for all attempts of a process.

A request brings the token of its attempt; without one it gets 401, after the attempt's end 409, and under a foreign name of this machine,
or from a page of a browser, 403. Requests and tokens are in no log.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from patchgrad.agents.gateway.dialects import COUNT, MODELS, WIRES, HttpAnswer, refused
from patchgrad.agents.gateway.requests import body_of, brought, read, retried, sent
from patchgrad.agents.gateway.session import Session, SessionOver
from patchgrad.errors import MissingDependency

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")
HOST = "127.0.0.1"


class Gateway:
    """Listens from when it is made until `close`. Raises `MissingDependency` without starlette and uvicorn."""

    def __init__(self) -> None:
        try:
            import uvicorn
            from starlette.applications import Starlette
            from starlette.routing import Route
        except ModuleNotFoundError:
            raise MissingDependency("Programs of others are answered by starlette and uvicorn: pip install 'patchgrad[gateway]'.") from None
        self._sessions: dict[str, Session] = {}
        self._over: set[str] = set()
        self._socket = _listening()
        self.address = f"http://{HOST}:{self._socket.getsockname()[1]}"
        routes = [
            Route("/", self._here, methods=["HEAD"]),
            Route("/v1/models", self._models),
            *(Route(path, self._asked, methods=["POST"]) for path in WIRES),
            Route("/sandbox", self._sandbox, methods=["POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve(sockets=[self._socket])), name="gateway", daemon=True)
        self._thread.start()

    def open(self) -> Session:
        """A session for an attempt of the running loop."""
        session = Session()
        self._sessions[session.token] = session
        return session

    def leave(self, session: Session) -> None:
        """The attempt is over."""
        session.close()
        if self._sessions.pop(session.token, None) is not None:
            self._over.add(_name(session.token))

    def close(self) -> None:
        """Stops listening."""
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    async def _here(self, request: Request) -> Response:
        return self._refused(request) or sent(HttpAnswer(200, ""))

    async def _models(self, request: Request) -> Response:
        return self._refused(request) or sent(MODELS)

    async def _asked(self, request: Request) -> Response:
        if no := self._refused(request):
            return no
        path, found = request.url.path, await read(request)
        if isinstance(found, HttpAnswer):
            return sent(found)
        asked, digest = found
        if path == COUNT:
            counted = await _told(lambda: self._session(request).count(asked.request))
            return _over(path) if counted is None else _json({"input_tokens": counted})
        sampled = await _told(lambda: self._session(request).ask(asked.request, digest, retried(request)))
        return _over(path) if sampled is None else sent(asked.reply(sampled))

    async def _sandbox(self, request: Request) -> Response:
        if no := self._refused(request):
            return no
        path = request.url.path
        try:
            command = json.loads(await body_of(request) or b"")["command"]
        except (ValueError, TypeError, KeyError, RecursionError):
            command = None
        if not isinstance(command, str):
            return sent(refused(path, 'The body of a request is {"command": TEXT}.', 400))
        told = await _told(lambda: self._session(request).run(command))
        return _over(path) if told is None else _json(told)

    def _session(self, request: Request) -> Session:
        session = self._sessions.get(brought(request))
        if session is None:
            raise SessionOver
        return session

    def _refused(self, request: Request) -> Response | None:
        port = self.address.rpartition(":")[2]
        if request.headers.get("host", "") not in (f"{HOST}:{port}", f"localhost:{port}") or "origin" in request.headers:
            return sent(refused(request.url.path, "Nothing is served under that name, and nothing to pages.", 403))
        token = brought(request)
        if token in self._sessions:
            return None
        if token and _name(token) in self._over:
            return _over(request.url.path)
        sentence = "Bring the token of an attempt: Authorization: Bearer TOKEN."
        return sent(refused(request.url.path, sentence, 401, "authentication_error"))


def _listening() -> socket.socket:
    """A socket that says that it is TCP: asyncio sends at once on such a one alone, and a call on another waits 40 ms for its answer."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.bind((HOST, 0))
    made.listen()
    return made


async def _told(ask: Callable[[], Future[T]]) -> T | None:
    """What is answered; nothing where the attempt is over. The attempt goes on where the program has hung up: it may ask again."""
    try:
        return await asyncio.shield(asyncio.wrap_future(ask()))
    except SessionOver:
        return None


def _over(path: str) -> Response:
    return sent(refused(path, "The attempt is over.", 409))


def _json(told: Any) -> Response:
    return sent(HttpAnswer(200, json.dumps(told)))


def _name(token: str) -> str:
    return hashlib.blake2b(token.encode(), digest_size=12).hexdigest()


_here: dict[int, Gateway] = {}


def gateway() -> Gateway:
    """The gateway of this process, which listens from when it is first asked for until the process ends."""
    if os.getpid() not in _here:
        _here.clear()  # what a fork has of its parent's
        _here[os.getpid()] = Gateway()
        atexit.register(_here[os.getpid()].close)
    return _here[os.getpid()]
