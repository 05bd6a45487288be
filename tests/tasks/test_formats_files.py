"""Files of rows and sets, each from the other, through the command line; what is broken is said in one sentence and leaves nothing."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tasks import format_rows
from tests.tasks.test_formats import PLAIN

from patchgrad.cli import tasks
from patchgrad.errors import MissingDependency, PatchgradError, Refused, TaskError
from patchgrad.tasks.formats import files
from patchgrad.tasks.formats.exchange import export_set, import_set, read_digests
from patchgrad.tasks.sets import Member, members, read_origins, save
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, HiddenFile

DATA = os.environ.get("PATCHGRAD_DATA")
DIGEST = f"sha256:{'a' * 64}"
Spoken = pytest.CaptureFixture[str]


def call(*words: str) -> int:
    """`patchgrad tasks import ...` or `export ...`, with its errors as they are raised."""
    top = argparse.ArgumentParser()
    tasks.options(top)
    return tasks.run(top.parse_args(words))


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in files.read(str(path))]


def forged(folder: Path) -> Member:
    """A member with an archive in the set, as the forge makes them."""
    repository = a_repository(folder / "archives", {"box.py": "a = 1\n", "tests/test_box.py": "def test_kept(): pass\n"})
    hidden = HiddenFile("tests/test_hidden.py", "import box\ndef test_a(): assert box.a == 2\n")
    checks = Checks(("tests/test_hidden.py::test_a",), ("tests/test_box.py::test_kept",), files=(hidden,))
    tags = {"source": "forge", "package": "box", "level": "report", "split": "train", "kind": "repair"}
    task = a_task("forge:box:swap:1", "It is 1 ü.\n", repository, checks, packages=("six==1.17.0",), setup=("true",), tags=tags)
    return Member(task, {"report": "It is 1 ü.\n", "named": "test_a fails"}, format_rows.PATCHES[0], "E assert")


# --- real rows ------------------------------------------------------------------------------------


@pytest.mark.skipif(DATA is None, reason="PATCHGRAD_DATA names no folder with real rows")
@pytest.mark.parametrize(
    ("name", "format", "count"),
    [
        ("swebench_verified_60/rows.jsonl.gz", "swebench", 60),
        ("swerebench_v2/sample.json", "swerebench-v2", 1),
        ("swesmith/row_pandas-dev__pandas.95280573.pr_53652.json", "swesmith", 1),
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_real_rows_come_back_the_same(tmp_path: Path, name: str, format: str, count: int, ending: str) -> None:
    source = Path(DATA or "") / name
    found = import_set(str(source), tmp_path / "set")
    assert len(found) == count
    assert {member.task.tags["source"] for member in found} == {format}
    assert {member.task.tags["split"] for member in found} == {"evaluation" if format == "swebench" else "train"}
    assert export_set(tmp_path / "set", tmp_path / f"out{ending}") == count
    given, back = (sorted(rows(path), key=lambda row: row["instance_id"]) for path in (source, tmp_path / f"out{ending}"))
    assert [json.dumps(row) for row in back] == [json.dumps(row) for row in given]


# --- forms of files -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", files.SUFFIXES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_rows=st.lists(format_rows.rows("swerebench-v2") | format_rows.rows("multi-swe"), min_size=1, max_size=3))
def test_every_form_gives_its_rows_back(tmp_path: Path, ending: str, given_rows: list[dict[str, Any]]) -> None:
    files.write(given_rows, tmp_path / f"rows{ending}")
    assert json.dumps(rows(tmp_path / f"rows{ending}")) == json.dumps(given_rows)


def test_parquet_has_the_types_of_the_hub(tmp_path: Path) -> None:
    import pyarrow.parquet

    files.write(
        [{"instance_id": "a", "tests": ["x", "y"], "meta": {"n": 1}}, {"instance_id": "b", "tests": [], "meta": {"m": 2}}],
        tmp_path / "r.parquet",
    )
    schema = pyarrow.parquet.read_schema(tmp_path / "r.parquet")
    assert [str(schema.field(name).type) for name in schema.names] == ["string", "list<element: string>", "string"]
    (tmp_path / "data").mkdir()
    (tmp_path / "r.parquet").rename(tmp_path / "data" / "train-0.parquet")
    assert [row["meta"] for row in rows(tmp_path)] == [{"n": 1}, {"m": 2}]


# --- sets -----------------------------------------------------------------------------------------


def test_import_makes_a_set_and_export_gives_the_rows(tmp_path: Path, capsys: Spoken) -> None:
    given = [{**PLAIN, "instance_id": f"owner__box-{number}", "image": f"x/{number}", "extra": {"ü": None}} for number in (2, 1)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    (tmp_path / "digests.json").write_text(json.dumps({"x/1": DIGEST}))
    words = ("import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "set"), "--digests", str(tmp_path / "digests.json"), "--json")
    assert call(*words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "set": str(tmp_path / "set"),
        "tasks": 2,
        "source": {"swebench": 2},
        "split": {"evaluation": 2},
        "without_digest": 1,
        "cannot_run": 0,
        "without_network": 0,
        "without_tests": 0,
        "without_command": 0,
    }
    first, second = members(tmp_path / "set")
    assert (first.task.repository.digest, second.task.repository.digest) == (DIGEST, "")
    assert [origin.kind for origin in read_origins(tmp_path / "set")] == ["swebench"]
    assert call("export", str(tmp_path / "set"), str(tmp_path / "out.jsonl.gz"), "--json") == 0
    back = [json.loads(line) for line in gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).splitlines()]
    assert json.dumps(back[1]) == json.dumps(given[0])
    assert json.dumps(back[0]) == json.dumps({**given[1], "image": f"x/1@{DIGEST}"})


@pytest.mark.parametrize("out", ["out/rows.jsonl", "out/rows.parquet", "out/rows.json"])
@pytest.mark.parametrize("format", ["", "swebench", "swesmith", "r2e-gym", "nemotron"])
def test_a_forged_set_goes_out_and_comes_back(tmp_path: Path, out: str, format: str) -> None:
    made = forged(tmp_path / "set")
    save(tmp_path / "set", [made])
    assert call("export", str(tmp_path / "set"), str(tmp_path / out), "--format", format) == 0
    assert call("import", str(tmp_path / out), "--out", str(tmp_path / "set2")) == 0
    (back,) = members(tmp_path / "set2")
    assert Path(back.task.repository.location).read_bytes() == Path(made.task.repository.location).read_bytes()
    (tmp_path / "set").rename(tmp_path / "gone")
    (tmp_path / "set2").rename(tmp_path / "set")
    assert members(tmp_path / "set") == [made]


def test_words_have_defaults(tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(json.dumps({**PLAIN, "image": "x"}) + "\n")
    assert call("import", "rows.jsonl") == 0
    assert call("export", "rows", "--format", "parquet") == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "1 tasks from swebench are in rows (1 evaluation).",
        "1 of them name an image without a digest and cannot be opened yet: give the digests, --digests FILE.",
        "1 tasks are in rows.parquet.",
    ]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"FAIL_TO_PASS": "[]", "PASS_TO_PASS": None}, "name no tests, so that nothing solves them: they are kept for what else they say"),
        (
            {"FAIL_TO_PASS": '["test_a (app.tests.Case)"]', "PASS_TO_PASS": '["test_b (app.tests.Case)"]'},
            "name tests that are not pytest's and no command that runs them: only recorded logs of theirs can be graded",
        ),
    ],
)
def test_an_import_says_what_its_tasks_lack(tmp_path: Path, capsys: Spoken, columns: dict[str, Any], says: str) -> None:
    given = [{**PLAIN, "instance_id": "owner__box-1", **columns}, {**PLAIN, "instance_id": "owner__box-2"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    assert call("import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "set")) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"1 of them {says}."]


@pytest.mark.parametrize("text", [f'{{"x/1": "{DIGEST}"}}', f"x/1 {DIGEST}\n", f"\nx/1@{DIGEST}", f"x/1={DIGEST}\n"])
def test_digests_are_read_from_json_and_lines(tmp_path: Path, text: str) -> None:
    (tmp_path / "digests").write_text(text)
    assert read_digests(tmp_path / "digests") == {"x/1": DIGEST}


# --- what cannot be -------------------------------------------------------------------------------


def broken(tmp_path: Path, name: str, content: bytes) -> str:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PatchgradError) as refused:
        call("import", str(tmp_path / name), "--out", str(tmp_path / "set"))
    assert not (tmp_path / "set").exists()
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(f"{tmp_path}/", "")


def test_bad_files_are_told_and_leave_nothing(tmp_path: Path) -> None:
    good = json.dumps(PLAIN).encode()
    assert broken(tmp_path, "r.jsonl", b"{").startswith("r.jsonl line 1 is no JSON")
    assert broken(tmp_path, "r.jsonl", b"\n\n[]\n") == "r.jsonl line 3 is no object with columns."
    twice = broken(tmp_path, "r.jsonl", good + b"\n" + good)
    assert twice == "r.jsonl line 2: the id owner__box-7 stands for another task already (r.jsonl line 1): an id may stand for one only."
    assert (
        broken(tmp_path, "r.jsonl", good.replace(b'"patch": "diff', b'"patch": 3, "x": "diff'))
        == "r.jsonl line 1: the column patch holds 3, not text."
    )
    assert broken(tmp_path, "r.jsonl", b"") == "r.jsonl holds no rows."
    assert broken(tmp_path, "r.jsonl", b"\xff").startswith("r.jsonl line 1 is no JSON")
    assert broken(tmp_path, "r.jsonl.gz", b"no").startswith("r.jsonl.gz cannot be read")
    assert broken(tmp_path, "r.json", b'[{"a": 1}]').startswith("r.json row 1: these are the columns of no known format (a)")
    assert broken(tmp_path, "r.parquet", b"no").startswith("r.parquet is no readable Parquet file")
    assert broken(tmp_path, "r.csv", b"a,b").startswith("r.csv has an ending that is none of .jsonl,")


def test_archives_are_neither_missing_nor_others_nor_elsewhere(tmp_path: Path) -> None:
    save(tmp_path / "from", [forged(tmp_path / "from")])
    export_set(tmp_path / "from", tmp_path / "out" / "r.jsonl")
    (archive,) = (tmp_path / "out" / "archives").iterdir()
    text = (tmp_path / "out" / "r.jsonl").read_text()
    moved = text.replace(f"archives/{archive.name}", "../../etc/passwd")
    assert "not at archives/ and its SHA-256: it is refused" in broken(tmp_path, "moved.jsonl", moved.encode())
    outside = text.replace("tests/test_hidden.py", "../x.py")
    assert "it has a file at '../x.py', outside of the repository" in broken(tmp_path, "outside.jsonl", outside.encode())
    assert "is missing, or is another one" in broken(tmp_path, "away.jsonl", text.encode())
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / archive.name).write_bytes(b"another")
    assert "is missing, or is another one" in broken(tmp_path, "other.jsonl", text.encode())


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TaskError, match="does not exist: name a file"):
        call("import", str(tmp_path / "away.jsonl"))
    with pytest.raises(TaskError, match=r"without Harbor tasks .* and without Parquet files"):
        call("import", str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependency, match="datasets is not installed, and nebius/SWE-rebench is no file here: pip install datasets"):
        call("import", "nebius/SWE-rebench:filtered")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match="pyarrow is not installed, and Parquet needs it: pip install 'patchgrad\\[tasks\\]'"):
        files.write([PLAIN], tmp_path / "r.parquet")


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    save(tmp_path / "set", [forged(tmp_path / "set")])
    with pytest.raises(TaskError, match="has an ending that is none of"):
        call("export", str(tmp_path / "set"), str(tmp_path / "rows.csv"))
    with pytest.raises(TaskError, match=r"does not end in \.parquet"):
        call("export", str(tmp_path / "set"), str(tmp_path / "rows.jsonl"), "--format", "parquet")
    with pytest.raises(TaskError, match="There is no format swe: choose from"):
        call("export", str(tmp_path / "set"), str(tmp_path / "rows.jsonl"), "--format", "swe")


class _Hub:
    """What `datasets` gives, as far as it is used."""

    @staticmethod
    def load_dataset(name: str) -> dict[str, list[dict[str, Any]]]:
        if name == "no/where":
            raise ConnectionError("no route")
        return {"train": [PLAIN], "filtered": [{**PLAIN, "instance_id": "owner__box-8"}]}


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", _Hub)
    assert [m.task.id for m in import_set("a/b:filtered", tmp_path / "set")] == ["owner__box-8"]
    with pytest.raises(TaskError, match=r"The data set a/b has several splits: name one, as in a/b:train \(train, filtered\)\."):
        import_set("a/b", tmp_path / "set")
    with pytest.raises(TaskError, match="The data set a/b has no split x: choose from train, filtered"):
        import_set("a/b:x", tmp_path / "set")
    with pytest.raises(TaskError, match=r"no/where cannot be fetched \(ConnectionError: no route\)"):
        import_set("no/where", tmp_path / "set")


def test_a_value_or_a_group_of_a_parquet_file_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    pa, parquet, path = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet"), tmp_path / "rows.parquet"
    data = [b"one", b"\xff\xfe", b"three", b"four", b"five", b"six"]
    texts = pa.Array.from_buffers(pa.string(), 6, pa.array(data, pa.binary()).buffers())
    parquet.write_table(pa.table({"a": texts, "b": list(range(6))}), path, row_group_size=2, compression="none", use_dictionary=False)
    place = parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    whole = bytearray(path.read_bytes())
    whole[place : place + 8] = b"\xff" * 8
    path.write_bytes(whole)
    refused = Refused()
    assert [row["a"] for _, row in files.read(str(path), refused)] == ["one", "five", "six"]
    value, group = refused.sentences
    assert f"{path} row 2 has a value that cannot be read" in value
    assert f"{path} rows 3 to 4 cannot be read" in group
