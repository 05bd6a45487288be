"""A policy as an endpoint for any program, outside of attempts: the dialects, sessions by their tokens, and nothing that is written down.

Without a key any token names a session. With one, a request brings `KEY`, or `KEY:NAME` for a session of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from patchgrad.agents.gateway.dialects import COUNT, MODELS, WIRES, HttpAnswer, Posted, Sampled, refused
from patchgrad.agents.gateway.requests import brought, read, retried, sent
from patchgrad.agents.gateway.visits import Spent, Visits
from patchgrad.errors import ConfigError, ContextFault, MissingDependency, NotAccepted, PolicyFault
from patchgrad.links.listening import Place

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_REMEMBERED = 64  # questions, for who asks again


def app(visits: Visits, place: Place) -> Starlette:
    """The application; `MissingDependency` without starlette."""
    try:
        import uvicorn  # noqa: F401  it is started later; what is missing is told now
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ModuleNotFoundError:
        raise MissingDependency("A policy is served by starlette and uvicorn: pip install 'patchgrad[gateway]'.") from None
    desk = Desk(visits, place)
    asked = [Route(path, desk.asked, methods=["POST"]) for path in WIRES]
    return Starlette(routes=[Route("/", desk.here, methods=["HEAD"]), Route("/v1/models", desk.models), *asked])


class Desk:
    """Answers requests. Who says that it asks again is answered as before, unless that failed."""

    def __init__(self, visits: Visits, place: Place) -> None:
        self._visits, self._place = visits, place
        self._asked: deque[tuple[str, asyncio.Task[Sampled]]] = deque(maxlen=_REMEMBERED)

    async def here(self, request: Request) -> Response:
        """It is here."""
        return sent(self._refused(request) or HttpAnswer(200, ""))

    async def models(self, request: Request) -> Response:
        """The one model."""
        return sent(self._refused(request) or MODELS)

    async def asked(self, request: Request) -> Response:
        """An answer, or a count."""
        if no := self._refused(request):
            return sent(no)
        path, session, found = request.url.path, brought(request), await read(request)
        if isinstance(found, HttpAnswer):
            return sent(found)
        asked, digest = found
        try:
            if path == COUNT:
                return sent(HttpAnswer(200, json.dumps({"input_tokens": self._visits.of(session).count(asked.request)})))
            return sent(asked.reply(await self._answer(f"{session} {digest}", session, asked, retried(request))))
        except Spent as spent:
            return sent(refused(path, str(spent), 429, "rate_limit_error"))
        except (ContextFault, NotAccepted) as fault:
            return sent(refused(path, str(fault), 400))
        except PolicyFault as fault:
            return sent(refused(path, f"The policy cannot answer: {fault}.", 503, "api_error"))

    async def _answer(self, digest: str, session: str, asked: Posted, again: bool) -> Sampled:
        for earlier, answering in reversed(self._asked):
            failed = answering.done() and (answering.cancelled() or answering.exception() is not None)
            if again and earlier == digest and not failed:
                return await asyncio.shield(answering)
        answering = asyncio.ensure_future(self._visits.of(session).answer(asked.request))
        self._asked.append((digest, answering))
        return await asyncio.shield(answering)

    def _refused(self, request: Request) -> HttpAnswer | None:
        path = request.url.path
        if not self._place.names(request.headers.get("host", "")) or "origin" in request.headers:
            return refused(path, "Nothing is served under that name, unless --host-name tells it, and nothing to pages.", 403)
        key = brought(request).partition(":")[0]
        if self._place.key and not hmac.compare_digest(key.encode(), self._place.key.encode()):
            return refused(path, "Bring the key that the server was started with: Authorization: Bearer KEY.", 401, "authentication_error")
        return None


async def serve(visits: Visits, place: Place) -> None:
    """Serves until it is cancelled. Raises `ConfigError` where somebody else listens there."""
    made = app(visits, place)
    import uvicorn

    at, quiet = (place.host, place.port), partial(uvicorn.Config, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    try:
        await uvicorn.Server(quiet(made, *at, lifespan="off")).serve()
    except SystemExit as end:
        raise ConfigError(f"Nobody can listen at {place.host}:{place.port}: name another --port.") from end
    finally:
        visits.close()
