"""Folders of the host that sandboxes have: they are read and run at their own path in every backend, and nobody inside writes there."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.sandboxes.archives import REPOSITORY, archive, link, programs

from patchgrad.config import dumps, loads, override
from patchgrad.contracts import Sandbox, Sandboxes
from patchgrad.errors import ConfigError, TaskError
from patchgrad.recipes.component import Component
from patchgrad.recipes.laptop import laptop
from patchgrad.recipes.recipe import Recipe, SandboxChoice
from patchgrad.runs.build.harness import sandboxes
from patchgrad.runs.components.registry import Registry
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.bwrap.images import Images
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Repository, Task

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
needs_landlock = pytest.mark.skipif(version() < NEEDED, reason="this kernel's Landlock keeps no signals in")
BACKENDS = [pytest.param(BwrapSandboxes, marks=needs_bwrap), pytest.param(LandlockSandboxes, marks=needs_landlock)]
TOOL = '#!/bin/sh\nexec "${0%/*}/say" "hello from %s\\n" "$(cat "${0%/*}/../words")"\n'

TRIALS = (
    *("touch NEW", "mkdir NEW", "ln words NEW", "mv words NEW"),
    *("echo x > words", "rm words", "rm -r bin", "cp bin/say bin/tool", "chmod 777 . || touch NEW"),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a script, and a program of this host's that it calls: not below /tmp, which is each sandbox's own."""
    above = next((place for place in ("/mnt", "/srv", "/opt", str(Path.home())) if os.access(place, os.W_OK)), None)
    if above is None:
        pytest.skip("this user may write in no folder that sandboxes can have")
    made = Path(tempfile.mkdtemp(dir=above, prefix="folder-"))
    try:
        (made / "bin").mkdir()
        (made / "words").write_text("the host")
        (made / "bin" / "tool").write_text(TOOL)
        shutil.copy(shutil.which("printf") or "", made / "bin" / "say")
        for path in (made, made / "bin", *(made / "bin").iterdir()):
            path.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(made)


def small(folder: Path, **changes: Any) -> Task:
    return a_task(**{"repository": a_repository(folder, {"a.txt": "hello\n"}), **changes})


def held(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def seen(sandbox: Sandbox, folder: Path) -> None:
    """Reads, runs and tries to write what is there, in the agent's shell and in a process like a grader's."""
    tool, greeting = str(folder / "bin" / "tool"), "hello from the host\n"
    assert (await sandbox.run(f"ls {folder}; {tool}")).output == f"bin\nwords\n{greeting}"
    assert (await sandbox.exec([tool])).output == greeting
    assert (await sandbox.run("tool")).exit_code == 127, "its programs are called by their whole path"
    for trial in TRIALS:
        assert (await sandbox.exec(["sh", "-c", f"cd {folder} && {trial}"])).exit_code not in (0, None), trial
    assert (await sandbox.exec(["sh", "-c", f"rm -rf {folder}"])).exit_code not in (0, None)


async def shown_in(boxes: Sandboxes, task: Task, folder: Path) -> None:
    before = held(folder)
    try:
        async with await boxes.open(task) as one:
            await seen(one, folder)
            await one.run("echo x > new")
            async with await one.fork() as two:
                await seen(two, folder)
            await one.reset()
            await seen(one, folder)
            assert not (await one.snapshot()).entries
    finally:
        await boxes.close()
    assert held(folder) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_folder_of_the_host_is_read_and_run_in_every_sandbox_and_written_in_none(
    backend: Callable[..., Sandboxes], folder: Path, tmp_path: Path
) -> None:
    sent = pickle.loads(pickle.dumps(backend(cells=2, folders=(str(folder),))))  # as another machine gets it
    asyncio.run(shown_in(sent, small(tmp_path), folder))


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # docker-py leaves the socket of a request that failed to the collector
def test_a_container_has_the_folder_too(engine: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    boxes = pickle.loads(pickle.dumps(OciSandboxes(**engine, folders=(str(folder),))))
    boxes.probe()
    asyncio.run(shown_in(boxes, small(tmp_path), folder))


@needs_bwrap
def test_a_sandbox_in_an_image_has_the_folder_beside_the_image_s_own_files(folder: Path, tmp_path: Path) -> None:
    beside = f"{folder.parent}/of-the-image"
    files = {beside.lstrip("/"): "image's\n"}
    digest = archive(tmp_path / "i.tar", [programs(), REPOSITORY, files], ["PATH=/usr/bin"])
    task = small(tmp_path, repository=Repository("image", str(tmp_path / "i.tar"), digest))
    images = Images(tmp_path / "images")

    async def steps() -> None:
        boxes = BwrapSandboxes(cells=2, images=images, folders=(str(folder),))
        try:
            async with await boxes.open(task) as sandbox:
                await seen(sandbox, folder)
                assert (await sandbox.run(f"cat {beside}; touch {beside} {folder.parent}/new; echo $?")).output.endswith("1\n")
                assert (await sandbox.run(f"cat {beside}")).output == "image's\n"
        finally:
            await boxes.close()

    asyncio.run(steps())
    image = images.find(digest)
    assert image is not None
    assert not (image.root / str(folder).lstrip("/")).exists(), "the image stays as it is"


@needs_bwrap
def test_an_image_with_a_link_in_the_place_of_the_folder_is_told_so(folder: Path, tmp_path: Path) -> None:
    top = f"/{folder.parts[1]}"
    digest = archive(tmp_path / "i.tar", [programs(), REPOSITORY, {top.lstrip("/"): link("usr")}], ["PATH=/usr/bin"])
    task = small(tmp_path, repository=Repository("image", str(tmp_path / "i.tar"), digest))

    async def steps() -> None:
        boxes = BwrapSandboxes(cells=1, images=Images(tmp_path / "images"), folders=(str(folder),))
        try:
            await boxes.open(task)
        finally:
            await boxes.close()

    with pytest.raises(TaskError, match=f"has a link or a file at {top}, where sandbox.folders wants a folder"):
        asyncio.run(steps())


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("opt/cli", "'opt/cli' is no absolute path in its plain form"),
        ("", "'' is no absolute path"),
        ("/opt/../etc", "is no absolute path in its plain form"),
        ("/opt/cli/", "is no absolute path in its plain form"),
        ("/", "/ is above /testbed, which sandboxes have of their own"),
        ("/opt", "/opt is above /opt/python, which sandboxes have of their own"),
        ("/tmp", "/tmp is what sandboxes have of their own"),
        ("/testbed/tools", "/testbed/tools is below /testbed, which sandboxes have of their own"),
        ("/usr/local/bin", "/usr/local/bin is below /usr, which"),
        ("/etc", "/etc is what"),
        ("/proc/self", "is below /proc"),
        ("/dev/shm", "is below /dev"),
        ("/opt/python/more", "is below /opt/python"),
        ("/run", "/run is above /run/cell"),
    ],
)
def test_a_folder_that_no_sandbox_can_have_is_refused_by_the_recipe_and_by_every_backend(path: str, sentence: str) -> None:
    makers: list[Callable[[tuple[str, ...]], object]] = [
        lambda folders: SandboxChoice(folders=folders),
        lambda folders: BwrapSandboxes(folders=folders),
        lambda folders: LandlockSandboxes(folders=folders),
        lambda folders: OciSandboxes(folders=folders),
    ]
    for make in makers:
        with pytest.raises(ConfigError) as told:
            make(("/opt/cli", path))
        assert str(told.value).startswith(f"sandbox.folders: {sentence}" if sentence[0] in "'/" else "sandbox.folders: ")
        assert sentence in str(told.value)


@pytest.mark.parametrize("backend", [pytest.param("bwrap", marks=needs_bwrap), pytest.param("landlock", marks=needs_landlock)])
def test_a_folder_that_is_not_here_is_refused_before_a_run_begins(backend: str, folder: Path) -> None:
    (folder / "link").symlink_to("/proc/self")
    for path, sentence in (("missing", "is no folder of this host"), ("words", "is no folder of this host"), ("link", "leads to /proc/")):
        with pytest.raises(ConfigError, match=f"sandbox.folders: {folder}/{path} {sentence}"):
            sandboxes(SandboxChoice(Component(backend), requires=(), folders=(f"{folder}/{path}",)))


@needs_landlock
def test_landlock_shows_no_folder_with_other_sandboxes_nor_one_that_its_users_cannot_reach(folder: Path) -> None:
    with pytest.raises(ConfigError, match="which sandboxes have of their own"):
        LandlockSandboxes(folder=folder / "boxes", folders=(str(folder),)).probe()
    folder.chmod(0o700)
    inner = LandlockSandboxes(folders=(f"{folder}/bin",))
    if os.geteuid() == 0:
        with pytest.raises(ConfigError, match="lies in a closed folder"):
            inner.probe()
    else:
        inner.probe()


def test_a_backend_of_one_s_own_is_handed_the_folders_or_says_that_it_takes_none() -> None:
    told: list[tuple[str, ...]] = []

    def own(folders: tuple[str, ...]) -> Sandboxes:
        told.append(folders)
        return LocalSandboxes()

    registry = Registry({("sandboxes", "mine:own"): own, ("sandboxes", "mine:other"): LocalSandboxes})
    for folders in ((), ("/opt/cli",)):
        sandboxes(SandboxChoice(Component("mine:own"), requires=(), folders=folders), registry)
    assert told == [(), ("/opt/cli",)]
    sandboxes(SandboxChoice(Component("mine:other"), requires=()), registry)
    with pytest.raises(ConfigError, match="has no option folders"):
        sandboxes(SandboxChoice(Component("mine:other"), requires=(), folders=("/opt/cli",)), registry)


def test_a_recipe_s_file_and_the_command_line_name_folders() -> None:
    recipe = override(laptop(), {"sandbox.folders": "/opt/cli,/opt/other"})
    assert recipe.sandbox.folders == ("/opt/cli", "/opt/other")
    assert loads(Recipe, dumps(recipe)) == recipe
