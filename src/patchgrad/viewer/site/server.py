"""The server of the page. It listens on this machine alone unless it is told otherwise, answers GET alone, and nobody else's pages.

A page of another site could ask for what lies here: the browser is on this machine. So a request has to name this host, and where it tells
from which page it comes, that has to be this one's (`Host`, `Origin`). Beyond this machine each request has to bring a key.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgrad.errors import ConfigError, MissingDependency, PatchgradError
from patchgrad.links.listening import Place
from patchgrad.store import Run
from patchgrad.store.codec import finite
from patchgrad.viewer.site import curves, forks, listed, paired, recent, shown, summary
from patchgrad.viewer.site.watched import Watched

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

APP = Path(__file__).parent / "app"
STYLE = Path(__file__).parents[1] / "page.css"
"""How the report looks, as a file and in the page."""
EVERY = 1.0
"""Seconds after which the folders are looked at again."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
COOKIE = "patchgrad_key"


def app(folders: Sequence[Path], place: Place) -> Starlette:
    """The application: the page, and the data of the runs in these folders; `MissingDependency` without starlette."""
    try:
        import uvicorn  # noqa: F401  it is started later; what is missing is told now
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.responses import FileResponse
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    except ModuleNotFoundError:
        raise MissingDependency("The page is served by starlette and uvicorn: pip install 'patchgrad[view]'.") from None
    data = Data([Run.open(folder) for folder in folders])
    routes = [
        Route("/data/overview", data.overview),
        Route("/data/compared", data.compared),
        *(Route(f"/data/{{run:int}}/{path}", data.of(partial(_of_files, ask))) for path, ask in PARTS.items()),
        Route("/data/{run:int}/attempt", data.of(Watched.attempt)),
        Route("/data/{run:int}/observation", data.of(Watched.observation)),
        Route("/data/comparison", data.comparison),
        Route("/data/seeds", data.seeds),
        Route("/data/events", data.events),
        Route("/report.css", lambda _: FileResponse(STYLE)),
        Mount("/", StaticFiles(directory=APP, html=True)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, place=place)])


class Guard:
    """Lets through what comes from the page itself, and puts on each answer what keeps a browser from running what is shown."""

    def __init__(self, app: ASGIApp, place: Place) -> None:
        self._app, self._place = app, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from starlette.datastructures import MutableHeaders
        from starlette.requests import Request

        request = Request(scope)
        refusal = self._refused(request)
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if self._place.key and request.query_params.get("key"):
                    headers.append("Set-Cookie", f"{COOKIE}={self._place.key}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refused(self, request: Request) -> Response | None:
        from starlette.responses import PlainTextResponse

        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._place.names(host):
            return PlainTextResponse("This page is not served under that name.", 403)
        if origin is not None and origin != f"{request.url.scheme}://{host}":
            return PlainTextResponse("Pages of other sites get nothing here.", 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Nothing can be changed here.", 405)
        if self._place.key and not self._brought(request):
            return PlainTextResponse("Bring the key that the server was started with.", 401, {"WWW-Authenticate": "Bearer"})
        return None

    def _brought(self, request: Request) -> bool:
        scheme, _, said = request.headers.get("authorization", "").partition(" ")
        given = [said] if scheme.lower() == "bearer" else []
        given += [request.query_params.get("key", ""), request.cookies.get(COOKIE, "")]
        return any(hmac.compare_digest(one.encode(), self._place.key.encode()) for one in given)


def _listing(run: Run, request: Request) -> Any:
    """A chunk of the list."""
    return listed.listed((listed.chunks(run)[request.path_params["chunk"] :] or [[]])[0])


def _search(run: Run, request: Request) -> Any:
    """Ids of the attempts in which a text stands."""
    words = request.query_params.get("words", "")
    return listed.found(run, words) if words else []


PARTS: Mapping[str, Callable[[Run, Request], Any]] = {
    "list/{chunk:int}": _listing,
    "search": _search,
    "curves": lambda run, _: curves.curves(run),
    "family": lambda run, request: forks.family(run, request.query_params.get("id", "")),
    "report": lambda run, _: summary.of_run(run),
    "outcomes": lambda run, _: paired.outcomes(run),
}
"""What is asked of one run's files, by its address."""


def _of_files(ask: Callable[[Run, Request], Any], watched: Watched, request: Request) -> Any:
    return ask(watched.run, request)


class Data:
    """What the page asks for; each answer is read from the folders when it is asked for."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = [Watched.of(run) for run in runs]
        self._looks, self._seen, self._looked = threading.Lock(), list[Any](), 0.0

    async def overview(self, request: Request) -> Response:
        """All runs."""
        return await self._told(lambda: listed.overview([one.run for one in self._runs]))

    async def compared(self, request: Request) -> Response:
        """Two reports, which may be of two runs."""
        one, two = (request.query_params.get(name, "") for name in ("one", "two"))
        return await self._told(lambda: paired.compared([one.run for one in self._runs], one, two))

    async def comparison(self, request: Request) -> Response:
        """All runs side by side."""
        return await self._told(lambda: summary.of_runs([one.run for one in self._runs]))

    async def seeds(self, request: Request) -> Response:
        """Curves of recipes over seeds."""
        return await self._told(lambda: curves.over_seeds([one.run for one in self._runs]))

    def of(self, ask: Callable[[Watched, Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        """The answer to what is asked of one run."""

        async def answered(request: Request) -> Response:
            number = request.path_params["run"]
            if number >= len(self._runs):
                return _json({"error": f"There is no run {number}."}, 404)
            return await self._told(lambda: ask(self._runs[number], request))

        return answered

    async def events(self, request: Request) -> Response:
        """What each run is at and which of its attempts no table has, as far as that has changed, and whether it has more attempts or
        iterations, as server-sent events.
        """
        from starlette.responses import StreamingResponse

        async def told() -> AsyncIterator[str]:
            before: object = None
            known: list[dict[str, Any]] = [{} for _ in self._runs]
            while not await request.is_disconnected():
                states, now, live = zip(*await asyncio.to_thread(self._states), strict=True)
                others = [recent.told(*pair) for pair in zip(live, known, strict=True)]
                seen = states, [(one["said"], one["doing"], one["newest"]) for one in now]
                more = {"state": ";".join(states), "now": now, "live": others, "first": before is None}
                yield ": alive\n\n" if seen == before and not any(others) else f"data: {json.dumps(finite(more))}\n\n"
                before, known = seen, list(live)
                await asyncio.sleep(EVERY)

        return StreamingResponse(told(), media_type="text/event-stream")

    def _states(self) -> list[tuple[str, dict[str, Any], dict[str, dict[str, Any]]]]:
        """The state of each run; the folders are looked at once for all who ask at about the same time."""
        with self._looks:
            if time.monotonic() - self._looked > EVERY / 2:
                self._seen = [one.state() for one in self._runs]
                self._looked = time.monotonic()
            return self._seen

    async def _told(self, ask: Any) -> Response:
        try:
            return _json(await asyncio.to_thread(ask))
        except PatchgradError as error:
            return _json(shown.sentence(error), 404)
        except (OSError, ValueError) as error:
            return _json(shown.sentence(error), 500)


def _json(told: Any, status: int = 200) -> Response:
    """As ASCII, since what an agent printed may be no text; a number that is not finite is null."""
    from starlette.responses import Response

    try:
        text = json.dumps(told, allow_nan=False)
    except ValueError:  # looked for in each of a hundred thousand numbers only where one is not finite
        text = json.dumps(finite(told))
    return Response(text, status, media_type="application/json")


def serve(made: Starlette, place: Place, listening: Callable[[], object]) -> None:
    """Serves until it is stopped; `listening` is called as soon as a browser can ask.

    Raises `ConfigError` where somebody else listens there.
    """
    import uvicorn

    try:
        bound = socket.create_server((place.host, place.port), family=socket.AF_INET6 if ":" in place.host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(f"Nobody can listen at {place.host}:{place.port}: name another --port.") from error
    with bound, suppress(KeyboardInterrupt):  # which is how it ends
        listening()
        uvicorn.Server(uvicorn.Config(made, log_level="warning", access_log=False, timeout_graceful_shutdown=1)).run(sockets=[bound])
