"""Of many items one is bad: it is told in one sentence, the others get their results, the exit code is 1, and nothing is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tasks.test_formats import PLAIN
from tests.tasks.test_formats_files import forged
from tests.tasks.test_formats_harbor import made_by_others
from tests.tasks.test_written import CLEAN, a_member

from patchgrad.cli import main
from patchgrad.tasks.formats import files
from patchgrad.tasks.sets import TASKS, members, save
from patchgrad.tasks.statements.model import LEVEL
from patchgrad.testing.endpoint import ScriptedEndpoint, Trouble

Spoken = pytest.CaptureFixture[str]
Spoilt = Callable[..., tuple[str, str]]
BAD_ROWS = ('{"id": "half"}', "{torn", '"text"', '{"id": "x", "instruction": "\\udce9"}', "[" * 100_000)


@pytest.fixture
def told(capsys: Spoken) -> Spoilt:
    """What a call says that did all but some: its output, and its sentences."""

    def call(*words: str, sentences: int = 1) -> tuple[str, str]:
        assert main(list(words)) == 1
        out, err = capsys.readouterr()
        lines = [line for line in err.splitlines() if line.startswith("patchgrad: ")]
        assert len(lines) == sentences, err
        return out, "\n".join(lines)

    return call


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """A set of two tasks, between and after which are lines that are none."""
    folder = tmp_path / "set"
    first = forged(folder)
    second = replace(first, task=replace(first.task, id="other", tags={**first.task.tags, "package": "tub"}))
    save(folder, [first, second])
    one, two = (folder / TASKS).read_text().splitlines()
    (folder / TASKS).write_text("\n".join((one, *BAD_ROWS[:2], two, *BAD_ROWS[2:], "")))
    return folder


def test_a_set_is_looked_at_without_its_bad_rows(spoiled: Path, told: Spoilt, capsys: Spoken) -> None:
    out, err = told("tasks", "list", str(spoiled), sentences=5)
    assert [line.split()[0] for line in out.splitlines()] == ["forge:box:swap:1", "other"]
    assert all(f"in line {number}" in err for number in (3, 5, 6, 7))
    assert json.loads(told("tasks", "stats", str(spoiled), "--json", sentences=5)[0])["tasks"] == 2
    assert main(["tasks", "show", str(spoiled), "other"]) == 0, "one task is asked for, and it is whole"
    capsys.readouterr()


def test_a_set_that_is_written_again_keeps_its_bad_rows(spoiled: Path, told: Spoilt) -> None:
    told("tasks", "split", str(spoiled), "--by", "repository", "--held-out", "tub", sentences=5)
    lines = (spoiled / TASKS).read_text().splitlines()
    assert lines[2:] == list(BAD_ROWS)
    assert {json.loads(line)["id"]: json.loads(line)["tags"]["split"] for line in lines[:2]}["other"] == "held_out"


def test_a_set_goes_out_without_what_cannot_be_exported(spoiled: Path, told: Spoilt, tmp_path: Path) -> None:
    """A row that is none, and a task whose archive is gone."""
    kept = members_of(spoiled)
    gone = replace(kept[0], task=replace(kept[0].task, id="gone", repository=replace(kept[0].task.repository, digest="0" * 64)))
    gone = replace(gone, task=replace(gone.task, repository=replace(gone.task.repository, location=str(spoiled / "archives" / "no.tar"))))
    save(spoiled, [gone])
    _, err = told("tasks", "export", str(spoiled), str(tmp_path / "out.jsonl"), sentences=6)
    assert "no.tar cannot be read" in err
    assert [json.loads(line)["instance_id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ["forge:box:swap:1", "other"]
    told("tasks", "export", str(spoiled), str(tmp_path / "harbor"), "--format", "harbor", sentences=6)
    assert len(list((tmp_path / "harbor").iterdir())) == 2


def members_of(folder: Path) -> list:  # type: ignore[type-arg]
    from patchgrad.errors import Refused

    return members(folder, Refused())


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{torn", "line 2 is no JSON that can be read"),
        (b"[]", "line 2 is no object with columns"),
        (b'{"instance_id": "\xe9"}', "line 2 is no JSON that can be read"),
        (json.dumps({**PLAIN, "instance_id": "a__b-2", "problem_statement": "\udce9"}).encode(), "half of a character"),
        (json.dumps({**PLAIN, "instance_id": "a__b-2", "patch": 3}).encode(), "line 2: the column patch holds 3, not text"),
        (json.dumps({**PLAIN, "instance_id": "a__b-2", "patch": "--- a/../x\n+++ b/../x\n"}).encode(), "reaches outside"),
        (b'{"question": 1}', "the columns of no known format"),
    ],
)
def test_a_bad_row_is_not_imported_and_the_others_are(tmp_path: Path, told: Spoilt, bad: bytes, says: str) -> None:
    rows = [json.dumps({**PLAIN, "instance_id": name}).encode() for name in ("a__b-1", "a__b-3")]
    (tmp_path / "rows.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join((rows[0], bad, rows[1])))
    out, err = told("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "set"), "--json")
    assert says in err
    assert json.loads(out)["tasks"] == 2
    assert [member.task.id for member in members(tmp_path / "set")] == ["a__b-1", "a__b-3"]


def test_of_a_folder_of_tables_a_broken_one_is_not_imported(tmp_path: Path, told: Spoilt) -> None:
    for name in "ac":
        files.write([{**PLAIN, "instance_id": f"{name}__b-1"}], tmp_path / "hub" / f"{name}.parquet")
    whole = (tmp_path / "hub" / "c.parquet").read_bytes()
    (tmp_path / "hub" / "b.parquet").write_bytes(whole[: len(whole) // 2])
    _, err = told("tasks", "import", str(tmp_path / "hub"), "--out", str(tmp_path / "set"))
    assert "b.parquet is no readable Parquet file" in err
    assert [member.task.id for member in members(tmp_path / "set")] == ["a__b-1", "c__b-1"]


def test_of_a_folder_of_tasks_broken_ones_are_not_imported(tmp_path: Path, told: Spoilt) -> None:
    for name in ("good", "linked", "torn"):
        made_by_others(tmp_path / "tasks" / name)
    (tmp_path / "tasks" / "linked" / "tests" / "secret").symlink_to("/etc/passwd")
    (tmp_path / "tasks" / "torn" / "task.toml").write_text("x =")
    _, err = told("tasks", "import", str(tmp_path / "tasks"), "--out", str(tmp_path / "set"), sentences=2)
    assert "tests/secret is a link" in err
    assert "torn: task.toml is not valid TOML" in err
    assert len(members(tmp_path / "set")) == 1


def test_a_question_without_an_answer_costs_its_own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "set"
    one = a_member(folder)
    save(folder, [replace(one, task=replace(one.task, id=name)) for name in ("a", "b")])
    with ScriptedEndpoint(lambda _: CLEAN, troubles=[Trouble(400, "prompt is too long: maximum context length")]) as endpoint:
        words = ("--endpoint", endpoint.url, "--model", "m", "--concurrency", "1", "--json")
        assert main(["tasks", "write", str(folder), *words]) == 1
    assert json.loads(capsys.readouterr().out)["written"] == 1
    assert sorted(LEVEL in member.levels for member in members(folder)) == [False, True]


def test_what_a_terminal_has_no_letter_for_is_told_all_the_same(spoiled: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """As with a name of a file that is no text, or a terminal of another language."""
    import subprocess

    code = "import sys; from patchgrad.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "tasks", "list", str(spoiled)],
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"It is 1 \\xfc." in done.stdout
