"""What a host offers: what is missing is told with what to do about it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from patchgrad.contracts import Sandboxes
from patchgrad.sandboxes import host
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.testing.tasks import a_repository, a_task


def test_every_offer_has_words_for_its_lack() -> None:
    found = host.offers()
    assert len({offer.name for offer in found}) == len(found) > 5
    assert all(offer.without and offer.advice for offer in found)


@pytest.mark.parametrize(
    ("switch", "value", "advice"),
    [
        ("kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "apparmor_restrict_unprivileged_userns=0"),
        ("user/max_user_namespaces", "0\n", "max_user_namespaces=15000"),
    ],
)
def test_a_closed_switch_of_the_kernel_is_named_with_the_command_that_opens_it(
    tmp_path: Path, switch: str, value: str, advice: str
) -> None:
    (tmp_path / "sys" / switch).parent.mkdir(parents=True)
    (tmp_path / "sys" / switch).write_text(value)
    (namespaces,) = [offer for offer in host.offers(tmp_path, lambda: errno.EPERM) if "namespaces" in offer.name]
    assert (namespaces.there, namespaces.found) == (False, "unshare: Operation not permitted")
    assert advice in namespaces.advice


def test_without_a_closed_switch_it_is_a_container_that_refuses(tmp_path: Path) -> None:
    (namespaces,) = [offer for offer in host.offers(tmp_path, lambda: errno.EPERM) if "namespaces" in offer.name]
    assert "seccomp=unconfined" in namespaces.advice


class Engine(BaseHTTPRequestHandler):
    """Says of itself what Podman says."""

    def do_GET(self) -> None:
        told = json.dumps({"Version": "5.2.0", "Components": [{"Name": "Podman Engine"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


def test_an_engine_is_asked_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("DOCKER_HOST", address)
        (engine,) = [offer for offer in host.offers() if "engine" in offer.name]
    assert (engine.there, engine.found) == (True, f"Podman 5.2.0 at {address}")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "unix:///nowhere/docker.sock", "ssh://elsewhere", "nonsense"])
def test_an_engine_that_does_not_answer_is_named_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    (engine,) = [offer for offer in host.offers() if "engine" in offer.name]
    assert not engine.there
    assert engine.found.startswith(f"{address} does not answer: ")
    assert engine.advice == "unset DOCKER_HOST"


NAMES = {"site-packages", "dist-packages", "third_party", "_vendor", "vendor", "vendored", "python-wheels", "_bundled"}
LOOK = """
import json, os, sys, pytest
own = os.path.dirname(os.path.dirname(os.path.realpath(pytest.__file__)))
names, places = set(sys.argv[1].split(",")), json.load(open("places.json"))
found = []
for place in ("/", *places):
    for top, folders, files in os.walk(place):
        folders[:] = [name for name in folders if os.path.join(top, name) not in ("/proc", "/sys", "/dev", own)]
        if not top.startswith(own) and names & set(top.split("/")):
            found += [os.path.join(top, name) for name in files if name.endswith((".py", ".whl"))]
print(len(os.listdir(os.path.dirname(os.__file__))) > 100, found[:3])
"""


def copies() -> list[str]:
    """Folders of this host that hold packages, under each name that a sandbox may know them by."""
    found = []
    for prefix in {"/usr", sys.base_prefix}:
        for top, folders, _ in os.walk(prefix):
            held = [name for name in folders if name in NAMES]
            folders[:] = [name for name in folders if name not in held]
            found += [os.path.join(top, name) for name in held]
    return found + [path.replace(sys.base_prefix, "/opt/python", 1) for path in found if path.startswith(sys.base_prefix)]


@pytest.mark.parametrize("backend", [BwrapSandboxes, LandlockSandboxes])
def test_no_copy_of_a_package_that_the_host_keeps_is_in_reach(backend: Callable[..., Sandboxes], tmp_path: Path) -> None:
    """What a program of the host brought along may be the original of a task, by whichever path it might be read."""
    if (backend is BwrapSandboxes and shutil.which("bwrap") is None) or (backend is LandlockSandboxes and version() < NEEDED):
        pytest.skip("this host has not what the backend needs")

    async def look() -> str:
        boxes = backend(2)
        try:
            repository = a_repository(tmp_path, {"look.py": LOOK, "places.json": json.dumps(copies())})
            async with await boxes.open(a_task(repository=repository)) as box:
                return (await box.run(f"python look.py {','.join(NAMES)}", 60.0)).output.strip()
        finally:
            await boxes.close()

    assert asyncio.run(look()) == "True []"
