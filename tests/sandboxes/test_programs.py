"""Which of its host's programs a sandbox has: those of a list, whatever else the host has, and what they hold is told."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path

import pytest

from patchgrad.contracts import Sandboxes
from patchgrad.errors import MissingDependency
from patchgrad.sandboxes import programs
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.landlock.confine import NEEDED, version
from patchgrad.sandboxes.programs import NAMES, changed, ensure_programs
from patchgrad.testing.tasks import a_repository, a_task


@pytest.fixture(params=["bwrap", "landlock"])
def boxes(request: pytest.FixtureRequest) -> Sandboxes:
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if request.param == "landlock" and version() < NEEDED:
        pytest.skip("this kernel's Landlock keeps no signals in")
    made = BwrapSandboxes(cells=1) if request.param == "bwrap" else LandlockSandboxes(cells=1)
    return made


def said(boxes: Sandboxes, folder: Path, *commands: str) -> list[str]:
    async def go() -> list[str]:
        try:
            async with await boxes.open(a_task("t", repository=a_repository(folder, {"a.py": ""}))) as sandbox:
                return [(await sandbox.run(command)).output for command in commands]
        finally:
            await boxes.close()

    return asyncio.run(go())


def test_a_program_that_is_not_on_the_list_is_not_found(boxes: Sandboxes, tmp_path: Path) -> None:
    others = [path.name for path in Path("/usr/bin").iterdir() if path.is_file() and path.name not in NAMES and "python" not in path.name]
    name = next(iter(sorted(others)), "xdg-open")
    found, ran = said(boxes, tmp_path, f"command -v '{name}' || echo none", f"'{name}' --version")
    assert found == "none\n"
    assert ran.endswith(f"{name}: command not found\n")


def test_those_on_the_list_are_found_and_work(boxes: Sandboxes, tmp_path: Path) -> None:
    told = boxes.probe().programs
    assert {"bash", "git", "grep", "ls", "sed"} <= told.keys() <= NAMES
    paths, sums, worked = said(
        boxes,
        tmp_path,
        "for name in git ls; do command -v $name; done",
        'sha256sum "$(command -v git)" | cut -c1-16',
        "git status --short && ls | sed s/a/b/ && /bin/sh -c 'echo x | /usr/bin/env grep -c x'",
    )
    assert [Path(line).name for line in paths.split()] == ["git", "ls"]
    assert sums.strip() == told["git"]
    assert worked == "b.py\n1\n"


def test_what_the_host_gets_later_is_in_no_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host on which `open` leads somewhere and one on which it does not have the same programs."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        for program in ("bash", "git"):
            (tmp_path / name / program).write_text(f"#!/bin/sh\necho {program}\n")
            (tmp_path / name / program).chmod(0o755)
    (tmp_path / "other" / "xdg-open").write_text("#!/bin/sh\n")
    (tmp_path / "other" / "xdg-open").chmod(0o755)
    found = []
    for name in ("one", "other"):
        monkeypatch.setattr(programs, "_FOLDERS", (str(tmp_path / name),))
        found.append(ensure_programs(folder=tmp_path / "cache"))
    assert found[0].folder == found[1].folder
    assert found[0].contents == {name: hashlib.sha256(f"#!/bin/sh\necho {name}\n".encode()).hexdigest()[:16] for name in ("bash", "git")}
    assert sorted(path.name for path in found[0].folder.iterdir()) == ["bash", "git"]
    (tmp_path / "other" / "git").write_text("#!/bin/sh\necho newer\n")
    newer = ensure_programs(folder=tmp_path / "cache")
    assert newer.folder != found[0].folder
    assert changed(found[0].contents, newer.contents) == "git differs"
    (tmp_path / "other" / "bash").unlink()
    with pytest.raises(MissingDependency, match="no bash"):
        ensure_programs(folder=tmp_path / "cache")


def test_links_are_what_they_lead_to_and_hold_no_place_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bash").write_text("x" * 1000)
    (tmp_path / "bash").chmod(0o755)
    (tmp_path / "sh").symlink_to("bash")
    (tmp_path / "awk").symlink_to("/nowhere")
    (tmp_path / "git").write_text("not to be run")
    monkeypatch.setattr(programs, "_FOLDERS", (str(tmp_path),))
    found = ensure_programs(folder=tmp_path / "cache")
    assert found.contents.keys() == {"bash", "sh"}
    assert (found.folder / "sh").stat().st_ino == (found.folder / "bash").stat().st_ino
    assert not (found.folder / "sh").is_symlink()


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ({"git": "1"}, {"git": "1"}, ""),
        ({"git": "1", "w": "1"}, {"git": "2"}, "git differs; w is missing"),
        ({}, {"a": "1", "b": "1"}, "a, b are new"),
        ({str(n): "1" for n in range(8)}, {str(n): "2" for n in range(8)}, "0, 1, 2, 3, 4, 5 and 2 more differ"),
    ],
)
def test_what_is_another_program_is_told(before: dict[str, str], now: dict[str, str], told: str) -> None:
    assert changed(before, now) == told
