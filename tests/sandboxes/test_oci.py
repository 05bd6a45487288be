"""The container backend against real engines where it differs from the contract."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sandboxes.archives import REPOSITORY, layer, programs

from patchgrad.contracts import Sandboxes
from patchgrad.errors import MissingDependency, SandboxFault, SandboxLost, TaskError
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.bwrap.images import Images
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.testing.attacks import FILES, GRADER, attack_grader
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Repository, Task

docker = pytest.importorskip("docker", reason="docker-py is not installed")
# docker-py leaves the socket of a request that failed to the collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def small(folder: Path, **changes: Any) -> Task:
    return a_task(**{"repository": a_repository(folder, {"a.txt": "hello\n", "pkg/b.py": "x = 1\n"}), **changes})


@pytest.mark.slow
def test_of_a_thousand_programs_that_end_at_once_every_one_is_heard(engine: dict[str, Any], tmp_path: Path) -> None:
    async def quarter(boxes: OciSandboxes) -> list[str]:
        async with await boxes.open(small(tmp_path)) as sandbox:
            return [(await sandbox.exec(("pwd",))).output for _ in range(250)]

    async def steps() -> list[list[str]]:
        boxes = OciSandboxes(**engine)
        try:
            return await asyncio.gather(*(quarter(boxes) for _ in range(4)))
        finally:
            await boxes.close()

    heard = Counter(output for outputs in asyncio.run(steps()) for output in outputs)
    assert heard == {"/testbed\n": 1000}


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_state_has_the_same_address_in_a_container_and_in_bubblewrap_and_opens_in_either(engine: dict[str, Any], tmp_path: Path) -> None:
    work = "echo x > new; chmod 755 new; rm a.txt; mkdir -p d/e; ln -s ../new d/link; echo y >> pkg/b.py; git add -A"

    async def steps() -> None:
        one, two, task = OciSandboxes(**engine), BwrapSandboxes(cells=2), small(tmp_path)
        try:
            states = []
            for boxes in (one, two):
                box = await boxes.open(task)
                assert (await box.run(work)).exit_code == 0
                states.append(await box.snapshot())
                await box.close()
            files = [{path: entry for path, entry in state.entries.items() if not path.startswith(".git")} for state in states]
            assert files[0] == files[1]
            assert set(files[0]) == {"new", "a.txt", "d", "d/e", "d/link", "pkg/b.py"}
            for boxes, state in ((one, states[1]), (two, states[0])):
                box = await boxes.open(task, state)
                assert (await box.run("cat d/link pkg/b.py; ls a.txt 2>&1; git status --short")).output.splitlines()[:3] == [
                    "x",
                    "x = 1",
                    "y",
                ]
                await box.close()
        finally:
            await one.close()
            await two.close()

    asyncio.run(steps())


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_image_of_the_engine_s_is_the_same_without_it(engine: dict[str, Any], tmp_path: Path) -> None:
    client = docker.DockerClient(engine["socket"], timeout=180)
    client.api.import_image_from_data(layer({**programs(), **REPOSITORY}), repository="whole", changes=["ENV PATH=/usr/bin"])
    made = client.images.get("whole")
    with open(tmp_path / "whole.tar", "wb") as file:
        file.writelines(made.save())
    client.close()
    repository = Repository("image", str(tmp_path / "whole.tar"), str(made.id))
    work = "echo x > new; rm a.txt; git add -A; git log --oneline | wc -l; cat .git/HEAD"

    async def steps() -> None:
        images = Images(tmp_path / "images")
        backends: list[Sandboxes] = [OciSandboxes(**{**engine, "options": {}}), BwrapSandboxes(cells=2, images=images)]
        tasks = small(tmp_path, repository=replace(repository, location="whole")), small(tmp_path, repository=repository)
        try:
            found = []
            for boxes, task in zip(backends, tasks, strict=True):
                async with await boxes.open(task) as box:
                    assert (await box.run(work)).output == "1\nref: refs/heads/main\n", "what the image's history held is gone"
                    entries = (await box.snapshot()).entries
                    found.append({path: entry for path, entry in entries.items() if not path.startswith(".git")})
            assert found[0] == found[1]
            assert set(found[0]) == {"new", "a.txt"}
        finally:
            for boxes in backends:
                await boxes.close()

    asyncio.run(steps())
    client = docker.DockerClient(engine["socket"])
    client.images.remove("whole", force=True)
    client.close()


def test_the_grader_judges_in_a_container_as_in_bubblewrap(engine: dict[str, Any], tmp_path: Path) -> None:
    chosen = [forgery for forgery in GRADER if forgery.name in ("edits the test", "exits hard", "patches the runner", "prints a result")]
    shop = a_repository(tmp_path, FILES)
    findings = asyncio.run(attack_grader(lambda: OciSandboxes(**engine), shop, chosen))
    assert [finding for finding in findings if not finding.held] == []
    assert len(findings) == 4, "the honest repair was resolved"


def test_nothing_is_left_in_the_engine(engine: dict[str, Any], tmp_path: Path) -> None:
    client = docker.DockerClient(engine["socket"])
    before = len(client.images.list())

    async def steps() -> None:
        boxes = OciSandboxes(**engine)
        box = await boxes.open(small(tmp_path))
        await box.run("sleep 300 &")
        await boxes.open(small(tmp_path))
        await boxes.close()

    asyncio.run(steps())
    assert client.containers.list(all=True) == []
    assert len(client.images.list()) == before
    client.close()


def test_what_a_killed_process_left_is_gone_at_the_next_start(engine: dict[str, Any], tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom patchgrad.sandboxes.oci import OciSandboxes\n"
        "from patchgrad.testing.tasks import a_repository, a_task\n"
        "async def main():\n"
        f"    boxes = OciSandboxes(**{engine!r})\n"
        f"    task = a_task(repository=a_repository(Path({str(tmp_path)!r}), {{'a': 'a'}}))\n"
        "    await boxes.open(task)\n    print('open', flush=True)\n    await asyncio.sleep(60)\nasyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.kill()
    process.wait()
    process.stdout.close()
    client = docker.DockerClient(engine["socket"])
    assert len(client.containers.list(all=True)) == 1
    OciSandboxes(**engine).probe()
    assert client.containers.list(all=True) == []
    client.close()


def test_a_tree_deeper_than_a_path_can_name_is_no_state_and_the_container_goes_on(engine: dict[str, Any], tmp_path: Path) -> None:
    async def steps() -> None:
        boxes = OciSandboxes(**engine)
        try:
            async with await boxes.open(small(tmp_path)) as sandbox:
                for depth in (14, 60):
                    deep = f"n=$(printf 'n%.0s' $(seq 250)); for i in $(seq {depth}); do mkdir $n; cd $n; done; echo x > f"
                    await sandbox.run(f"{deep}; cd /testbed")
                    with pytest.raises(SandboxLost):
                        await sandbox.snapshot()
                    assert (await sandbox.run("rm -r n*; echo alive")).output == "alive\n"
                assert not (await sandbox.snapshot()).entries
        finally:
            await boxes.close()

    asyncio.run(steps())


def test_limits_hold_and_the_container_goes_on(engine: dict[str, Any], tmp_path: Path) -> None:
    async def steps() -> None:
        boxes = OciSandboxes(**engine)
        box = await boxes.open(small(tmp_path))
        hog = await box.run("python3 -c 'x = bytearray(3 << 30)'")
        assert "MemoryError" in hog.output or hog.exit_code == 137
        assert (
            "Network is unreachable" in (await box.run("python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)'")).output
        )
        await box.run("f() { sleep 20 & f; }; f", 3)
        answers = [await box.run("echo alive", 20) for _ in range(2)]  # an order to end everything may arrive late in a full container
        assert answers[-1].output.endswith("alive\n")
        await box.close()
        await boxes.close()

    asyncio.run(steps())


def test_what_cannot_be_opened_is_one_sentence(engine: dict[str, Any], tmp_path: Path) -> None:
    async def opened(boxes: OciSandboxes, task: Task) -> None:
        try:
            await boxes.open(task)
        finally:
            await boxes.close()

    with pytest.raises(TaskError, match="no image was named"):
        asyncio.run(opened(OciSandboxes(socket=engine["socket"]), small(tmp_path)))
    with pytest.raises(TaskError, match="of kind 'git'"):
        asyncio.run(opened(OciSandboxes(**engine), small(tmp_path, repository=Repository("git", "x", "0" * 40))))
    with pytest.raises(TaskError, match="set-up command failed: 'exit 3'"):
        asyncio.run(opened(OciSandboxes(**engine), small(tmp_path, setup=("exit 3",))))
    missing = Repository("image", "localhost/no-such-image", "sha256:" + "0" * 64)
    with pytest.raises(SandboxFault, match="the container engine refused"):
        asyncio.run(opened(OciSandboxes(**engine), small(tmp_path, repository=missing)))
    with pytest.raises(MissingDependency, match="does not answer"):
        OciSandboxes(socket="unix:///no/such/socket").probe()
