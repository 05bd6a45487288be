"""A server of the page for tests, in a thread of this process, the page as a folder, and a browser that looks at it."""

from __future__ import annotations

import http.client
import http.server
import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from patchgrad.links.listening import Place
from patchgrad.viewer.site.server import app
from patchgrad.viewer.site.written import write

WAYS = ("served", "by a server of files", "by a double click")
"""How the page is opened."""


@contextmanager
def served(folders: Sequence[Path], key: str = "") -> Iterator[Place]:
    """Where the page of these runs is served."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = Place(port=free.getsockname()[1], key=key)
    server = uvicorn.Server(uvicorn.Config(app(folders, place), host=place.host, port=place.port, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield place
    server.should_exit = server.force_exit = True
    thread.join()


def asked(place: Place, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, dict[str, str]]:
    """What the server answers to a request with these headers."""
    connection = http.client.HTTPConnection(place.host, place.port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    told = json.loads(content) if answer.headers.get_content_type() == "application/json" else content.decode()
    return answer.status, told, dict(answer.headers)


@contextmanager
def plain(folder: Path) -> Iterator[int]:
    """Any server of files."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def opened(folders: Sequence[Path], way: str, out: Path) -> Iterator[str]:
    """The address of the page of these runs, opened in this way; as a folder it is written to `out`."""
    if way == "served":
        with served(folders) as place:
            yield f"http://127.0.0.1:{place.port}/"
        return
    write(folders, out)
    if way == "by a double click":
        yield (out / "index.html").as_uri()
        return
    with plain(out) as port:
        yield f"http://127.0.0.1:{port}/index.html"


def violations(page: Any) -> list[tuple[str, str]]:
    """What axe-core finds on a page: names, roles, contrasts, order."""
    axe = pytest.importorskip("axe_playwright_python")
    page.evaluate(next(Path(axe.__file__).parent.rglob("axe.min.js")).read_text())
    found = page.evaluate("() => axe.run({preload: false})")["violations"]  # which would copy style sheets in ways that the page forbids
    return [(one["id"], one["nodes"][0]["html"]) for one in found]


@contextmanager
def browser(**options: Any) -> Iterator[Any]:
    """A page of the distribution's Chromium, which fails where the page's code does."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = opened.new_page(**options)
        page.set_default_timeout(120_000)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        yield page
        opened.close()
    assert not errors, errors


def until(page: Any, rows: int) -> None:
    """Waits until the list shows so many attempts."""
    from playwright.sync_api import expect

    expect(page.locator(".body .row")).to_have_count(rows, timeout=120_000)
