"""`patchgrad tasks grade`: recorded runs and sets, for people and for machines, and what is asked of it that cannot be done."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchgrad.cli.tasks import grade as tasks_grade
from patchgrad.errors import ConfigError, PatchgradError, TaskError
from patchgrad.grading.output import END, START
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.tasks.sets import Member, members, save
from patchgrad.testing.attacks.patches import CHECKS, FILES, REPAIR
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.testing.tasks import a_repository, a_task

Spoken = pytest.CaptureFixture[str]
ROWS = [
    {"instance_id": f"a__b-{n}", "repo": "a/b", "FAIL_TO_PASS": '["t.py::mend"]', "PASS_TO_PASS": "[]", "patch": "gold"} for n in (1, 2, 3)
]
LOG = f"{START}\n{{}} t.py::mend\n{END}\n"


def grade(*words: str) -> int:
    parser = argparse.ArgumentParser()
    tasks_grade.options(parser)
    return tasks_grade.run(parser.parse_args(words))


def spoken(capsys: Spoken, *words: str) -> dict[str, Any]:
    assert grade(*words, "--json") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    """Three rows with answers: one resolved, one not though its report says so, one without a log."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    answers = [{"instance_id": row["instance_id"], "model_name_or_path": "me", "model_patch": "p"} for row in ROWS]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    for name, word in (("a__b-1", "PASSED"), ("a__b-2", "FAILED")):
        folder = tmp_path / "logs" / name
        folder.mkdir(parents=True)
        (folder / "test_output.txt").write_text(LOG.format(word))
        lists = {"FAIL_TO_PASS": {"success": ["t.py::mend"], "failure": []}}
        (folder / "report.json").write_text(json.dumps({name: {"resolved": True, "tests_status": lists}}))
    return [
        *("--predictions", str(tmp_path / "answers.json")),
        *("--tasks", str(tmp_path / "rows.jsonl")),
        *("--recorded", str(tmp_path / "logs")),
    ]


def test_recorded_runs_for_people(recorded: list[str], tmp_path: Path, capsys: Spoken) -> None:
    assert grade(*recorded, "--out", str(tmp_path / "out"), "--run-id", "try") == 0
    assert capsys.readouterr().out == (
        "3 predictions for 3 tasks: 1 resolved, 1 unresolved, 0 empty patch, 1 error\n"
        "  a__b-3: no log of its tests was recorded\n"
        "The recorded reports agree on 1 of 2 verdicts and 1 lists of tests.\n"
        "  a__b-2: recorded otherwise\n"
        f"Written: {tmp_path / 'out' / 'me.try.json'}\n"
    )
    written = tmp_path / "out" / "logs/run_evaluation/try/me"
    assert sorted(path.name for path in written.iterdir()) == ["a__b-1", "a__b-2"]
    assert json.loads((written / "a__b-1" / "report.json").read_text())["a__b-1"]["resolved"]


def test_recorded_runs_for_machines(recorded: list[str], capsys: Spoken) -> None:
    told = spoken(capsys, *recorded)
    assert (told["resolved_ids"], told["unresolved_ids"], told["error_ids"]) == (["a__b-1"], ["a__b-2"], ["a__b-3"])
    assert told["schema_version"] == 2
    assert told["agreement"] == {"reports": 2, "resolved": 1, "lists": 1, "differ": ["a__b-2"]}
    assert told["instances"]["a__b-2"]["fail_to_pass"] == 0.0
    assert told["instances"]["a__b-3"] == {"resolved": False, "stages": []}
    assert told["notes"] == {"a__b-3": "no log of its tests was recorded"}


def test_a_bad_item_is_told_and_the_others_get_their_results(recorded: list[str], tmp_path: Path, capsys: Spoken) -> None:
    """A prediction that is no text, one for no task, a row without tests, one whose reader is unknown, a broken tar, an odd report."""
    extra = [{**ROWS[0], "instance_id": "a__b-4", "log_parser": "mine"}, {**ROWS[0], "instance_id": "a__b-5", "FAIL_TO_PASS": 3}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (*ROWS, *extra)))
    answers = json.loads((tmp_path / "answers.json").read_text())
    answers += [{**answers[0], "instance_id": f"a__b-{n}"} for n in (4, 5)] + [{**answers[0], "model_patch": "\udce9"}]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    (tmp_path / "logs" / "old.tar").write_bytes(b"no tar")
    (tmp_path / "logs" / "a__b-1" / "report.json").write_text('{"a__b-1": {"resolved": true, "tests_status": [1]}}')
    assert grade(*recorded, "--json", "--out", str(tmp_path / "out")) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["resolved_ids"], told["unresolved_ids"], told["error_ids"]) == (["a__b-1"], ["a__b-2"], ["a__b-3", "a__b-4"])
    assert told["agreement"]["differ"] == ["a__b-1", "a__b-2"]
    signs = (
        "line 5 has no FAIL_TO_PASS",
        "half of a character",
        "for a__b-5, which is none",
        "old.tar is no whole tar",
        "for a__b-4 cannot be graded",
    )
    assert all(any(sign in sentence for sentence in told["refused"]) for sign in signs), told["refused"]
    assert grade(*recorded) == 1
    assert capsys.readouterr().out.count("  refused: ") == len(told["refused"])


def test_where_every_prediction_is_bad_the_call_fails_and_says_why(recorded: list[str], tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps([{"instance_id": "a__b-1", "model_name_or_path": "me", "model_patch": "\ud800"}]))
    with pytest.raises(TaskError, match="half of a character"):
        grade(*recorded)


def test_gold_answers_every_row(recorded: list[str], capsys: Spoken) -> None:
    assert spoken(capsys, *recorded, "--predictions", "gold")["submitted_instances"] == 3


def test_what_cannot_be_done(recorded: list[str], tmp_path: Path) -> None:
    rows = recorded[:4]
    with pytest.raises(TaskError, match="holds rows, whose repositories are not at hand: name their recorded runs with --recorded"):
        grade(*rows)
    with pytest.raises(ConfigError, match="--concurrency 0 grades nothing"):
        grade(*rows, "--concurrency", "0")
    with pytest.raises(ConfigError, match="--run-id 'a/b' cannot name a file"):
        grade(*rows, "--run-id", "a/b")
    with pytest.raises(TaskError, match="does not exist: name the folder, or the tar file"):
        grade(*rows, "--recorded", str(tmp_path / "nowhere"))
    with pytest.raises(TaskError, match="cannot be read"):
        grade(*rows, "--predictions", str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(TaskError, match="does not exist: make a task set first"):
        grade(*rows, "--tasks", str(tmp_path))
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps({**row, "log_parser": "mine"}) + "\n" for row in ROWS))
    with pytest.raises(TaskError, match="There is no reader of logs called 'mine': choose from"):
        grade(*recorded, "--tasks", str(tmp_path / "odd.jsonl"))
    (tmp_path / "answers.json").write_text(json.dumps([{"instance_id": "a__b-9", "model_name_or_path": "me", "model_patch": "p"}]))
    with pytest.raises(TaskError, match="a prediction for a__b-9, which is none of the 3 tasks"):
        grade(*recorded)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A set of one task with its repair."""
    folder = tmp_path / "set"
    repository = a_repository(folder / "archives", FILES)
    repair = forge(REPAIR, tmp_path / "repository")
    save(folder, [Member(a_task("shop", "", repository, CHECKS), {"report": "total is wrong"}, repair)])
    return folder


def opens(tmp_path: Path) -> bool:
    async def attempt() -> None:
        boxes = BwrapSandboxes(1)
        try:
            await (await boxes.open(a_task("t", "", a_repository(tmp_path / "try", {"a": ""}), CHECKS))).close()
        finally:
            await boxes.close()

    try:
        asyncio.run(attempt())
    except PatchgradError:
        return False
    return True


def test_a_set_is_graded_in_sandboxes(shop: Path, tmp_path: Path, capsys: Spoken) -> None:
    if not opens(tmp_path):
        pytest.skip("no sandbox opens here")
    out = tmp_path / "out"
    told = spoken(capsys, "--predictions", "gold", "--tasks", str(shop), "--concurrency", "1", "--out", str(out))
    assert (told["resolved_ids"], told["report"]) == (["shop"], str(out / "gold.patchgrad.json"))
    assert told["instances"]["shop"]["stages"] == ["applied", "collected", "ran"]
    (tmp_path / "p.jsonl").write_text(json.dumps({"instance_id": "shop", "model_name_or_path": "me", "model_patch": "nonsense"}) + "\n")
    told = spoken(capsys, "--predictions", str(tmp_path / "p.jsonl"), "--tasks", str(shop / "tasks.jsonl"), "--concurrency", "1")
    assert told["unresolved_ids"] == ["shop"]
    assert told["instances"]["shop"]["stages"] == []
    assert told["notes"] == {"shop": "the patch did not apply"}


def test_a_task_that_cannot_be_graded_takes_no_other_with_it(shop: Path, tmp_path: Path, capsys: Spoken) -> None:
    """Its command makes no report; another row of the set is broken, and is still there afterwards."""
    (good,) = members(shop)
    odd = replace(good.task, id="odd", checks=replace(good.task.checks, command=("make",)))
    save(shop, [replace(good, task=odd)])
    with (shop / "tasks.jsonl").open("a") as file:
        file.write('{"id": "half"}\n')
    if not opens(tmp_path):
        pytest.skip("no sandbox opens here")
    assert grade("--predictions", "gold", "--tasks", str(shop), "--concurrency", "1", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["resolved_ids"], told["error_ids"]) == (["shop"], ["odd"])
    assert [sentence.split(":")[0] for sentence in told["refused"]] == [
        f"A row of {shop / 'tasks.jsonl'} is no task ('checks')",
        "The prediction for odd cannot be graded",
    ]


def test_a_set_has_no_log_to_read(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with pytest.raises(TaskError, match="no reader of logs called 'report'"):
        grade("--predictions", "gold", "--tasks", str(shop), "--recorded", str(tmp_path / "logs"))
