"""A set without its sources, and the same set again from them, bit for bit, or a sentence that says what has changed."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.cli import main
from patchgrad.errors import TaskError
from patchgrad.tasks.projects import open_project
from patchgrad.tasks.projects.furnish import prepare
from patchgrad.tasks.rebuilding import FROZEN, freeze, rebuild
from patchgrad.tasks.sets import MANIFEST, TASKS, Member, Origin, load_set, read_origins, save
from patchgrad.testing.tasks import a_repository, a_task

FILES = {"box.py": "def area(a):\n    return a * a\n", "test_box.py": "from box import area\n\n\ndef test_it():\n    assert area(2) == 4\n"}


def sdist(cache: Path, files: dict[str, str]) -> str:
    """A source distribution in the cache, as if it had been fetched; its hash."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in {**files, "PKG-INFO": "Name: box\nVersion: 1.0\nLicense: MIT\n"}.items():
            info = tarfile.TarInfo(f"box-1.0/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    sha = hashlib.sha256(buffer.getvalue()).hexdigest()
    (cache / "sdists" / sha).mkdir(parents=True, exist_ok=True)
    (cache / "sdists" / sha / "box-1.0.tar.gz").write_bytes(buffer.getvalue())
    return sha


def a_set(folder: Path, source: str, cache: Path, sha: str = "") -> Origin:
    project, files = open_project(source, cache, sha)
    tree = prepare(project, files)
    repository = a_repository(folder / "archives", {name: text for name, text in tree.items() if name != "left.py"})
    task = a_task("box-1", "", repository, fail_to_pass=("test_box.py::test_it",), tags={"source": "forge", "package": "box"})
    origin = Origin(project.kind, "box", project.version, project.address, "MIT", "patchgrad tasks forge", 1, left_out=("left.py",))
    save(folder, [Member(task, {"report": ""}, "")], [origin])
    return origin


def same(one: Path, other: Path) -> bool:
    return subprocess.run(["diff", "-r", str(one), str(other)], check=False).returncode == 0


def test_a_set_of_a_distribution_is_rebuilt_bit_for_bit(tmp_path: Path) -> None:
    sha = sdist(tmp_path / "cache", {**FILES, "left.py": "broken"})
    a_set(tmp_path / "set", "box==1.0", tmp_path / "cache", sha)
    assert freeze(tmp_path / "set", tmp_path / "frozen") == 1
    assert sorted(path.name for path in (tmp_path / "frozen").iterdir()) == [MANIFEST, FROZEN]
    assert rebuild(tmp_path / "frozen", tmp_path / "again", tmp_path / "cache").tasks == 1
    assert same(tmp_path / "set", tmp_path / "again")


def test_a_set_of_a_commit_is_rebuilt_from_a_clone_and_refused_at_another_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clones" / "box"
    clone.mkdir(parents=True)
    for name, text in FILES.items():
        (clone / name).write_text(text)
    git = ["git", "-C", str(clone), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    a_set(tmp_path / "set", str(clone), tmp_path / "cache")
    freeze(tmp_path / "set", tmp_path / "frozen")
    words = ["tasks", "rebuild", str(tmp_path / "frozen"), "--clones", str(tmp_path / "clones"), "--json"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main([*words, "--out", str(tmp_path / "again")]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 1
    assert same(tmp_path / "set", tmp_path / "again")
    (clone / "box.py").write_text("def area(a):\n    return 0\n")
    subprocess.run([*git, "commit", "-qam", "second"], check=True)
    assert main([*words, "--out", str(tmp_path / "third")]) == 2
    assert "any more" in capsys.readouterr().err
    assert not (tmp_path / "third").exists()


def test_what_has_changed_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    sha = sdist(tmp_path / "cache", {**FILES, "left.py": "broken"})
    a_set(tmp_path / "set", "box==1.0", tmp_path / "cache", sha)
    freeze(tmp_path / "set", tmp_path / "frozen")
    manifest = json.loads((tmp_path / "frozen" / MANIFEST).read_text())
    manifest["origins"][0]["left_out"] = []
    (tmp_path / "frozen" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(TaskError, match="1 archives of the set could not be made again"):
        rebuild(tmp_path / "frozen", tmp_path / "again", tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir() if "again" in path.name] == []
    with pytest.raises(TaskError, match="No task could be made again: its sources have changed"):
        rebuild(tmp_path / "frozen", tmp_path / "again", tmp_path / "cache", partly=True)
    (tmp_path / "frozen" / FROZEN).write_bytes(b"junk")
    with pytest.raises(TaskError, match="is no set that was frozen"):
        rebuild(tmp_path / "frozen", tmp_path / "again", tmp_path / "cache")


def test_a_set_that_is_there_is_not_written_over_and_one_without_manifest_not_frozen(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(TaskError, match="is there already"):
        rebuild(tmp_path / "frozen", tmp_path / "there", tmp_path / "cache")
    (tmp_path / "there" / TASKS).write_text("")
    with pytest.raises(TaskError, match=f"has no {MANIFEST}"):
        freeze(tmp_path / "there", tmp_path / "out")


def test_what_cannot_be_had_is_left_out_where_a_part_is_enough_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sha, folder = sdist(tmp_path / "cache" / "patchgrad", {**FILES, "left.py": "broken"}), tmp_path / "set"
    origin = a_set(folder, "box==1.0", tmp_path / "cache" / "patchgrad", sha)
    lost = a_task("lid-1", "", a_repository(folder / "archives", {"lid.py": "x = 1\n"}), fail_to_pass=("t::t",), tags={"package": "lid"})
    gone = replace(origin, kind="git", name="lid", location=str(tmp_path / "nowhere"))
    save(folder, [Member(lost, {"report": ""}, "")], [origin, gone])
    freeze(folder, tmp_path / "frozen")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["tasks", "rebuild", str(tmp_path / "frozen"), "--out", str(tmp_path / "again")]
    assert main(words) == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert main([*words, "--partly"]) == 0
    told = capsys.readouterr().out
    assert "left out: lid, " in told
    assert "1 tasks are in" in told
    assert [task.id for task in load_set(tmp_path / "again")] == ["box-1"]
    assert [kept.name for kept in read_origins(tmp_path / "again")] == ["box"]
    freeze(tmp_path / "again", tmp_path / "smaller")
    assert rebuild(tmp_path / "smaller", tmp_path / "third", tmp_path / "cache" / "patchgrad").tasks == 1
    assert same(tmp_path / "again", tmp_path / "third")
