"""What the sandbox of this host enforces, whether one truly opens, and what the host offers to the other kinds."""

from __future__ import annotations

import asyncio
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.cli.check.finding import Finding
from patchgrad.errors import PatchgradError

if TYPE_CHECKING:
    from patchgrad.contracts import Capabilities, Sandboxes
    from patchgrad.sandboxes.host import Offer

WORDS = {
    "network": "the agent has no network",
    "processes": "the number of its processes is limited",
    "memory": "its memory is limited",
    "disk": "its disk is limited",
    "pid_namespace": "it sees no process of this machine",
    "seal": "sealed files, such as hidden tests, are out of its reach",
    "fork": "a sandbox can be opened again at any turn",
}


def sandbox() -> list[Finding]:
    """What the sandbox of this host enforces, and whether one truly opens."""
    from patchgrad.sandboxes.bwrap import BwrapSandboxes

    try:
        boxes = BwrapSandboxes(cells=1)
        told = boxes.probe()
        asyncio.run(_try(boxes))
    except (PatchgradError, OSError) as error:
        return [Finding("a sandbox opens", False, str(error), help=_first_help())]
    return [Finding("a sandbox opens", True, f"{told.name}; {'; '.join(told.notes)}"), *_enforced(told)]


def host() -> list[Finding]:
    """What this host offers; what is missing is told with what is done without it and how to get it, and stops nothing by itself."""
    from patchgrad.sandboxes.host import offers

    client = find_spec("docker") is not None
    helps = "" if client else "pip install 'patchgrad[docker]'"
    told = Finding("docker-py is installed", client, "" if client else "without it: no sandbox of the kind `oci` opens", False, helps)
    return [*(_offered(one) for one in offers()), told]


def _offered(one: Offer) -> Finding:
    if one.there:
        return Finding(one.name, True, one.found, needed=False)
    found = f"{one.found}; " if one.found else ""
    return Finding(one.name, False, f"{found}without it: {one.without}", needed=False, help=one.advice)


def _first_help() -> str:
    """Bubblewrap and namespaces come first of what a host offers, and without one of them no sandbox opens."""
    return next((finding.help for finding in host()[:2] if not finding.holds), "")


def _enforced(told: Capabilities) -> list[Finding]:
    return [Finding(words, getattr(told, name)) for name, words in WORDS.items()]


async def _try(boxes: Sandboxes) -> None:
    """One episode in small: a repository of one file, one command."""
    from patchgrad.errors import SandboxFault
    from patchgrad.tasks.archive import pack, store
    from patchgrad.values import Checks, Task

    try:
        with tempfile.TemporaryDirectory() as folder:
            repository = store(Path(folder), pack({"hello.txt": b"hello\n"}))
            opened = await boxes.open(Task("check", "", repository, Checks((), ())))
            answer = await opened.run("cat hello.txt")
            await opened.close()
        if answer.output.strip() != "hello":
            raise SandboxFault(f"a command in the sandbox answered {answer.output[:80]!r} ({answer.state}) instead of 'hello'")
    finally:
        await boxes.close()
