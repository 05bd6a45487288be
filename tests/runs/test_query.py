"""Questions to a run: every column says what it is, answers are those of the folder, and a question changes nothing."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_pipeline import TINY

from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.errors import ConfigError
from patchgrad.runs.api import train
from patchgrad.runs.inspection.columns import TABLES
from patchgrad.runs.inspection.query import described, query
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run

pytest.importorskip("duckdb")
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small run that is over."""
    folder = tmp_path_factory.mktemp("asked") / "small's run"
    with Run.create(folder, dumps(TINY)) as made:
        train(TINY, made, Silent())
    return Run.open(folder)


def test_every_column_of_a_run_says_what_it_is(run: Run) -> None:
    found = described([run.folder])
    assert {table for table, *_ in found} == set(TABLES)
    assert [(table, column) for table, column, _, meaning in found if not meaning] == []


def test_every_column_that_is_described_is_there(run: Run) -> None:
    there = {(table, column) for table, column, *_ in described([run.folder])}
    for name in ("attempts", "turns", "policies", "outcomes"):
        assert {column for table, column in there if table == name} == set(TABLES[name].columns)


def test_answers_are_those_of_the_folder(run: Run) -> None:
    attempts = run.rollouts.rows()

    def ask(question: str) -> tuple[tuple[Any, ...], ...]:
        return query([run.folder], question).rows

    assert ask("select count(*), sum(solved::int), sum(turns) from attempts") == (
        (len(attempts), sum(row["solved"] for row in attempts), sum(row["turns"] for row in attempts)),
    )
    told = {(row["attempt"], number): turn["text"] for row in attempts for number, turn in enumerate(row["conversation"], 1)}
    assert {(attempt, number): text for attempt, number, text in ask("select attempt, turn, text from turns")} == told
    assert [reward for (reward,) in ask("select reward from metrics")] == [row["reward"] for row in run.results.metrics()]
    reports = run.results.reports()
    assert [name for (name,) in ask("select policy from policies")] == [report.name for report in reports]
    solved: dict[str, float] = dict(ask("select policy, avg(solved::int) from outcomes group by policy"))
    assert solved == pytest.approx({report.name: report.pass_at_1.mean for report in reports})


def test_several_runs_are_asked_together(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "other")
    found = query([run.folder, tmp_path / "other"], "select run, count(*) from attempts group by run order by run").rows
    assert [name for name, _ in found] == ["other", "small's run"]
    assert found[0][1] == found[1][1] > 0


def test_a_run_that_has_just_begun_answers_with_nothing(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", dumps(TINY)):
        pass
    for table, about in TABLES.items():
        assert query([tmp_path / "run"], f"select * from {table}").rows == ()
        assert about.about
    assert query([tmp_path / "run"], "select attempt, solved, turns from attempts").rows == ()


@pytest.mark.parametrize(
    "question",
    [
        "copy (select 1) to 'taken.csv'",
        "create table mine as select 1",
        "delete from metrics",
        "attach 'other.db'",
        "install httpfs",
        "set enable_external_access = true",
        "select 1; select 2",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/proc/self/environ')",
        "select * from 'https://example.org/a.parquet'",
        "select * from glob('/*')",
        "selec",
        "",
    ],
)
def test_what_is_no_question_to_a_run_is_refused_and_changes_nothing(
    question: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    with pytest.raises(ConfigError):
        query([run.folder], question)
    assert not list(tmp_path.iterdir())
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before


def test_answers_are_drawn_told_as_json_and_written_as_csv(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    question = "select 'a' || chr(27) || '[2J' as text, 1.5 as number, null as nothing, true as flag"
    assert main(["query", str(run.folder), question]) == 0
    drawn = capsys.readouterr().out
    assert "\x1b[2J" not in drawn
    assert drawn.splitlines()[1].split()[-2:] == ["1.5", "true"]
    assert main(["query", str(run.folder), question, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"columns": ["text", "number", "nothing", "flag"], "rows": [["a\x1b[2J", "1.5", None, True]]}
    assert main(["query", str(run.folder), question, "--csv"]) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out)))[1][1] == "1.5"
    assert main(["query", str(run.folder)]) == 2
    assert "a question follows the run" in capsys.readouterr().err


def test_the_columns_are_shown_whole(run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["query", str(run.folder), "--columns"]) == 0
    told = capsys.readouterr().out
    assert all(meaning in told for table in ("attempts", "turns") for meaning in TABLES[table].columns.values())


@pytest.mark.parametrize("table", ["trained", "rollouts"])
def test_a_damaged_table_takes_no_other_with_it(table: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run.folder, tmp_path / "damaged")
    path = sorted((tmp_path / "damaged" / table).glob("*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["query", str(tmp_path / "damaged"), "select count(*) as n from metrics", "--csv"]) == 1
    said = capsys.readouterr()
    assert said.out == f"n\n{len(run.results.metrics())}\n"
    assert path.name in said.err


def test_a_run_in_which_nothing_was_kept_of_tokens_has_no_rows(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "old", ignore=shutil.ignore_patterns("trained"))
    assert query([tmp_path / "old"], "select attempt, unnest(logprobs) - unnest(old) as moved, update + 1 from trained").rows == ()


def test_a_damaged_record_is_told_and_the_others_are_asked(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run.folder, tmp_path / "damaged")
    path = tmp_path / "damaged" / "metrics.jsonl"
    path.write_bytes(b"{broken\n" + path.read_bytes())
    assert main(["query", str(tmp_path / "damaged"), "select count(*) as n from metrics", "--csv"]) == 1
    said = capsys.readouterr()
    assert said.out == f"n\n{len(run.results.metrics())}\n"
    assert "metrics.jsonl" in said.err
