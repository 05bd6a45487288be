"""Every sandbox backend against the contract."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sandboxes.archives import REPOSITORY, archive, programs

from patchgrad.contracts import Sandboxes
from patchgrad.errors import MissingDependency, TaskError
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.bwrap.images import Images
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.testing.sandbox import check_sandbox
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Repository, Task


def small(folder: Path) -> Task:
    return a_task(
        "check", repository=a_repository(folder, {name: name for name in ("README.md", "package/__init__.py", "package/deep/module.py")})
    )


def kept(sandboxes: Sandboxes, task: Task) -> None:
    """Holds a backend to the contract, and closes it."""

    async def check() -> None:
        try:
            await check_sandbox(sandboxes, task)
        finally:
            await sandboxes.close()

    asyncio.run(check())


BACKENDS = [
    pytest.param(BwrapSandboxes, marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")),
    pytest.param(LandlockSandboxes, marks=pytest.mark.skipif(version() < NEEDED, reason="this kernel's Landlock keeps no signals in")),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_keeps_the_contract(backend: Callable[..., Sandboxes], tmp_path: Path) -> None:
    kept(backend(cells=3), small(tmp_path))


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # docker-py leaves the socket of a request that failed to the collector
def test_a_backend_of_containers_keeps_the_contract(engine: dict[str, Any], tmp_path: Path) -> None:
    kept(OciSandboxes(**engine), small(tmp_path))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sandbox_in_an_image_keeps_the_contract(tmp_path: Path) -> None:
    digest = archive(tmp_path / "i.tar", [programs(), REPOSITORY], ["PATH=/usr/bin"])
    task = a_task("check", repository=Repository("image", str(tmp_path / "i.tar"), digest))
    kept(BwrapSandboxes(cells=3, images=Images(tmp_path / "images")), task)


PATCH = """diff --git a/README.md b/README.md
--- a/README.md
+++ b/README.md
@@ -1 +1 @@
-README.md
\\ No newline at end of file
+broken 'on purpose' $HOME `\\x`
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_repository_s_patch_is_in_its_first_commit_and_nowhere_else(backend: Callable[..., Sandboxes], tmp_path: Path) -> None:
    plain = small(tmp_path)
    filler = "".join(
        f"diff --git a/f{n} b/f{n}\nnew file mode 100644\n--- /dev/null\n+++ b/f{n}\n@@ -0,0 +1 @@\n+{'x' * 9000}\n" for n in range(30)
    )
    task = replace(plain, repository=replace(plain.repository, patch=PATCH + filler))  # longer than one argument of a command may be

    async def look() -> None:
        boxes = backend()
        try:
            async with await boxes.open(task) as sandbox:
                assert await sandbox.read("README.md") == b"broken 'on purpose' $HOME `\\x`\n"
                assert len((await sandbox.read("f29")).strip()) == 9000
                told = await sandbox.run("git status --porcelain; git log --oneline | wc -l; git log -p | grep -c '^-README'; ls -A /tmp")
                assert told.output.split()[:2] == ["1", "0"]
                assert ".repository.patch" not in told.output
            async with await boxes.open(plain) as sandbox:
                assert await sandbox.read("README.md") == b"README.md"
            with pytest.raises(TaskError, match="the patch of its repository does not fit"):
                await boxes.open(replace(task, repository=replace(plain.repository, patch=PATCH.replace("-README", "-other"))))
        finally:
            await boxes.close()

    asyncio.run(look())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_task_has_the_packages_that_it_names_and_no_others(backend: Callable[..., Sandboxes], tmp_path: Path) -> None:
    plain = small(tmp_path)
    task = replace(plain, packages=("six==1.17.0",))

    async def look() -> None:
        boxes = backend()
        try:
            async with await boxes.open(task) as sandbox:
                assert (await sandbox.run("python -c 'import six, pytest; print(six.__version__)'")).output == "1.17.0\n"
                await sandbox.write("test_it.py", b"import six\ndef test_it(): assert six.PY3\n")
                assert "1 passed" in (await sandbox.run("pytest -q test_it.py")).output
            async with await boxes.open(plain) as sandbox:
                assert "No module named 'six'" in (await sandbox.run("python -c 'import six'")).output
            with pytest.raises((TaskError, MissingDependency), match="no-such-distribution"):
                await boxes.open(replace(plain, packages=("no-such-distribution==1",)))
        finally:
            await boxes.close()

    asyncio.run(look())
