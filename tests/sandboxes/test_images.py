"""Images without an engine: what layers make, what is refused, and that a sandbox in one is as good as any."""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from tests.sandboxes.archives import FIFO, FOLDER, PROGRAMS, REPOSITORY, Layer, archive, hard, interpreter, link, programs

from patchgrad.errors import TaskError
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.bwrap.images import Images
from patchgrad.testing.attacks import FILES, GRADER, attack_grader
from patchgrad.testing.tasks import a_task
from patchgrad.values import Repository, Task

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def in_image(location: Path | str, digest: str) -> Task:
    return a_task(repository=Repository("image", str(location), digest))


def test_layers_lie_over_each_other_as_the_specification_says(tmp_path: Path) -> None:
    lower: Layer = {
        "d/a": "a",
        "d/b": "b",
        "e/old": "old",
        "f": "file",
        "g/h": "h",
        "keep": "keep",
        "to": FOLDER,
        "to/x": "x",
        "by": link("to"),
    }
    upper: Layer = {
        "d/.wh.a": "",
        "e/.wh..wh..opq": "",
        "e/new": "new",
        "f": FOLDER,
        "f/in": "in",
        "g": link("keep"),
        "one": hard("d/b"),
        "by/y": "y",
    }
    digest = archive(tmp_path / "i.tar", [lower, {**upper, "pipe": FIFO, "../../above": "above"}, REPOSITORY])
    image = Images(tmp_path / "images").add(tmp_path / "i.tar")
    assert image.digest == digest
    files = {str(path.relative_to(image.root)): path for path in image.root.rglob("*")}
    assert {name for name in files if name.startswith(("d", "e/", "f", "g", "one", "pipe", "above", "to", "by"))} - {"dev"} == {
        *("d", "d/b", "e/new", "f", "f/in", "g", "one", "above", "to", "to/x", "to/y", "by")
    }
    assert os.readlink(files["g"]) == "keep"
    assert files["one"].stat().st_ino == files["d/b"].stat().st_ino
    assert (files["d/b"].stat().st_mode & 0o7777, files["d/b"].stat().st_mtime) == (0o755, 1_000_000)
    with tarfile.open(image.testbed) as tar:
        assert tar.getnames() == ["a.txt", "out"], "the repository without its history"
    assert not any((image.root / "testbed").iterdir())


@pytest.mark.parametrize("path", ["way/x", "way/mine", "way/.wh.mine", "way/.wh..wh..opq", "up/y", "mine", "etc/passwd"])
def test_no_link_of_an_image_leads_a_file_out_of_it(tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    links = {"way": link(str(outside)), "up": link("../../../../../.." + str(outside)), "mine": link(str(outside / "mine"))}
    lower: Layer = {"etc/passwd": link(str(outside / "mine"))} if path == "etc/passwd" else links
    archive(tmp_path / "i.tar", [lower, {path: "theirs"} if path != "etc/passwd" else {}, REPOSITORY])
    images = Images(tmp_path / "images")
    if path == "mine":
        assert (images.add(tmp_path / "i.tar").root / "mine").read_text() == "theirs", "a link is replaced, not followed"
    else:
        with pytest.raises(TaskError, match="cannot be laid out"):
            images.add(tmp_path / "i.tar")
        assert list(images.folder.iterdir()) == []
    assert [found.name for found in outside.iterdir()] == ["mine"]
    assert (outside / "mine").read_text() == "mine"


def test_a_testbed_that_is_a_link_takes_nothing_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "secret").write_text("secret")
    archive(tmp_path / "i.tar", [{"testbed": link(str(tmp_path / "mine"))}])
    images = Images(tmp_path / "images")
    with pytest.raises(TaskError, match="has no folder /testbed"):
        images.add(tmp_path / "i.tar")
    assert (list(images.folder.iterdir()), (tmp_path / "mine" / "secret").read_text()) == ([], "secret")


@pytest.mark.parametrize("docker", [False, True])
def test_an_image_is_found_again_by_each_of_its_names(tmp_path: Path, docker: bool) -> None:
    digest = archive(tmp_path / "i.tar", [REPOSITORY], ["PATH=/opt/bin", "A=b=c"], docker)
    images = Images(tmp_path / "images")
    assert images.find(digest) is None
    image = images.add(tmp_path / "i.tar", digest)
    assert image.environment == {"PATH": "/opt/bin", "A": "b=c"}
    assert images.find(digest) == images.add(tmp_path / "i.tar") == image
    names = [path.name for path in images.folder.iterdir()]
    assert [images.find(name) for name in names] == [image] * (1 if docker else 2), "by its manifest and by its configuration"


def test_a_repository_s_own_python_comes_first_where_images_keep_it(tmp_path: Path) -> None:
    archive(tmp_path / "i.tar", [REPOSITORY, {"opt/miniconda3/envs/testbed/bin/python": "#!/bin/sh\n"}], ["PATH=/bin"])
    image = Images(tmp_path / "images").add(tmp_path / "i.tar")
    assert image.environment["PATH"] == "/opt/miniconda3/envs/testbed/bin:/bin"


def test_what_is_no_image_or_another_one_is_one_sentence(tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    digest = archive(tmp_path / "i.tar", [{"etc/x": "x"}])
    with pytest.raises(TaskError, match="has no folder /testbed"):
        images.add(tmp_path / "i.tar")
    with pytest.raises(TaskError, match=f"is {digest}, not sha256:0000"):
        images.add(tmp_path / "i.tar", "sha256:" + "0" * 64)
    with pytest.raises(TaskError, match="cannot be read"):
        images.add(tmp_path / "missing.tar")
    (tmp_path / "text.tar").write_text("no tar")
    with pytest.raises(TaskError, match="cannot be read"):
        images.add(tmp_path / "text.tar")
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("something"))
    with pytest.raises(TaskError, match="no whole image archive"):
        images.add(tmp_path / "other.tar")
    whole = (tmp_path / "i.tar").read_bytes()
    at = whole.index(b"diff_ids")
    (tmp_path / "bent.tar").write_bytes(whole[:at] + b"DIFF" + whole[at + 4 :])
    with pytest.raises(TaskError, match="has not the hash"):
        images.add(tmp_path / "bent.tar")
    with pytest.raises(TaskError, match="names no image"):
        images.find("sha256:../../etc")
    assert list(images.folder.iterdir()) == [], "nothing is left of what was refused"


@needs_bwrap
def test_a_sandbox_in_an_image_has_its_programs_and_variables_and_not_the_host_s(tmp_path: Path) -> None:
    digest = archive(tmp_path / "i.tar", [programs(), REPOSITORY], ["PATH=/usr/bin", "WORD=said"])

    async def steps() -> None:
        backend = BwrapSandboxes(cells=3, images=Images(tmp_path / "images"))
        task = in_image(tmp_path / "i.tar", digest)
        try:
            async with await backend.open(task) as sandbox:
                told = await sandbox.run(
                    "echo $WORD $LD_LIBRARY_PATH; git log --oneline | wc -l; cat out | tail -1; ls /usr/bin | wc -l; touch /usr/x 2>&1"
                )
                assert told.output.split("\n")[:3] == ["said", "1", "agent:x:1000:1000:agent:/tmp/home:/bin/bash"]
                assert int(told.output.split("\n")[3]) < 2 * len(PROGRAMS), "the programs are the image's and not the host's"
                assert "Read-only" in told.output
        finally:
            await backend.close()

    asyncio.run(steps())


@needs_bwrap
def test_the_grader_judges_in_an_image_as_elsewhere(tmp_path: Path) -> None:
    shop = {f"testbed/{path}": text for path, text in FILES.items()}
    words = ["PATH=/opt/py/bin:/usr/bin", "PYTHONPATH=/opt/pytest"]
    digest = archive(tmp_path / "i.tar", [programs(), interpreter(), shop], words, docker=True)  # whose layers are not compressed
    chosen = [forgery for forgery in GRADER if forgery.name in ("edits the test", "exits hard", "patches the runner", "prints a result")]
    repository = Repository("image", str(tmp_path / "i.tar"), digest)
    backend = lambda: BwrapSandboxes(cells=4, images=Images(tmp_path / "images"))  # noqa: E731
    findings = asyncio.run(attack_grader(backend, repository, chosen))
    assert [finding for finding in findings if not finding.held] == []
    assert len(findings) == 4, "the honest repair was resolved"


@needs_bwrap
def test_an_image_without_a_shell_says_so(tmp_path: Path) -> None:
    digest = archive(tmp_path / "i.tar", [REPOSITORY], ["PATH=/opt/bin"])

    async def steps() -> None:
        backend = BwrapSandboxes(cells=1, images=Images(tmp_path / "images"))
        try:
            await backend.open(in_image(tmp_path / "i.tar", digest))
        finally:
            await backend.close()

    with pytest.raises(TaskError, match="there is no bash on the PATH /opt/bin"):
        asyncio.run(steps())


@needs_bwrap
def test_an_image_that_is_not_here_is_told_how_to_bring(tmp_path: Path) -> None:
    async def steps() -> None:
        backend = BwrapSandboxes(cells=1, images=Images(tmp_path / "images"))
        try:
            await backend.open(in_image("example/name", "sha256:" + "1" * 64))
        finally:
            await backend.close()

    with pytest.raises(TaskError, match=r"not on this machine; bring it as an archive \(`skopeo copy"):
        asyncio.run(steps())
