"""Every sandbox backend against the contract."""

from __future__ import annotations

import asyncio
import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import pytest

from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.sandbox import check_sandbox
from patchgrad.values import Checks, Repository, Task


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_bwrap_backend_keeps_the_contract(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in ("README.md", "package/__init__.py", "package/deep/module.py"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(stream.getvalue())
    repository = Repository("archive", str(archive), hashlib.sha256(stream.getvalue()).hexdigest())

    async def check() -> None:
        backend = BwrapSandboxes(cells=3)
        try:
            await check_sandbox(backend, Task("check", "", repository, Checks((), ())))
        finally:
            await backend.close()

    asyncio.run(check())
