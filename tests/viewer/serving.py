"""A server of the page for tests, in a thread of this process, and a browser that looks at it."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patchgrad.viewer.site.server import Place, app


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
