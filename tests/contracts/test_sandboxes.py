"""Every sandbox backend against the contract."""

from __future__ import annotations

import asyncio
import hashlib
import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgrad.contracts import Sandboxes
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.testing.sandbox import check_sandbox
from patchgrad.values import Checks, Repository, Task


def a_task(folder: Path) -> Task:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in ("README.md", "package/__init__.py", "package/deep/module.py"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    archive = folder / "a.tar.gz"
    archive.write_bytes(stream.getvalue())
    return Task("check", "", Repository("archive", str(archive), hashlib.sha256(stream.getvalue()).hexdigest()), Checks((), ()))


BACKENDS = [
    pytest.param(BwrapSandboxes, marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")),
    pytest.param(LandlockSandboxes, marks=pytest.mark.skipif(version() < NEEDED, reason="this kernel's Landlock keeps no signals in")),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_keeps_the_contract(backend: Callable[..., Sandboxes], tmp_path: Path) -> None:
    async def check() -> None:
        sandboxes = backend(cells=3)
        try:
            await check_sandbox(sandboxes, a_task(tmp_path))
        finally:
            await sandboxes.close()

    asyncio.run(check())
