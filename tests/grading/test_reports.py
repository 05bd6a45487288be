"""Predictions and rows in, reports out: SWE-bench's formats, and what people get wrong in them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from patchgrad.errors import Refused, TaskError
from patchgrad.grading.predictions import Prediction, gold_predictions, known, read_predictions
from patchgrad.grading.reports import Graded, failure_reason, instance_report, run_report, write_instance, write_run
from patchgrad.grading.rows import Row, read_rows
from patchgrad.grading.rules import outcomes
from patchgrad.values import Checks, Verdict

ONE: dict[str, Any] = {"instance_id": "a__b-1", "model_name_or_path": "owner/model", "model_patch": "diff"}
ANSWER = Prediction("a__b-1", "owner/model", "diff")
CHECKS = Checks(("mend",), ("keep",))
RAN = ("applied", "collected", "ran")


def verdict(*stages: str, fault: str | None = None, **statuses: str) -> Verdict:
    return Verdict("a__b-1", "", stages, outcomes(CHECKS, statuses), fault=fault)  # type: ignore[arg-type]


def write(path: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.jsonl", json.dumps(ONE) + "\n\n"),
        ("p.jsonl", json.dumps(ONE)),
        ("p.jsonl.gz", json.dumps(ONE) + "\n"),
        ("p.json", [ONE]),
        ("p.json", {"a__b-1": {key: ONE[key] for key in ("model_name_or_path", "model_patch")}}),
        ("p.json.gz", {"a__b-1": ONE}),
    ],
)
def test_every_form_of_predictions(tmp_path: Path, name: str, content: object) -> None:
    assert read_predictions(write(tmp_path / name, content)) == {"a__b-1": ANSWER}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.jsonl", json.dumps(ONE) + "\n{broken\n", "line 2 is no JSON .*: mend it or leave it out"),
        ("p.jsonl", "[1]\n", "line 1 holds no JSON object"),
        ("p.json", "{", "p.json is no JSON"),
        ("p.json", [1], "entry 1 holds no JSON object"),
        ("p.json", {"a__b-1": 1}, "a__b-1 holds no JSON object"),
        ("p.jsonl", "", "has no predictions"),
        ("p.json", [{**ONE, "instance_id": None}], "needs an instance_id and a model_name_or_path"),
        ("p.json", [{**ONE, "instance_id": "../x"}], "needs an instance_id"),
        ("p.json", [{**ONE, "model_name_or_path": ".."}], "words that can name a file"),
        ("p.json", [{"instance_id": "a", "model_patch": ""}], "and a model_name_or_path"),
        ("p.json", [{"instance_id": "a", "model_name_or_path": "m"}], "needs a model_patch: a patch, or null"),
        ("p.json", [{**ONE, "model_patch": 3}], "needs a model_patch"),
        ("p.json", [ONE, ONE], "entry 2 answers a__b-1 a second time"),
        ("p.json.gz", "", "no JSON"),
    ],
)
def test_broken_predictions_are_one_sentence(tmp_path: Path, name: str, content: object, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        read_predictions(write(tmp_path / name, content))


HALF = json.dumps({**ONE, "instance_id": "a__b-2", "model_patch": "+caf\udce9"})
DEEP = '{"instance_id": ' + 100_000 * "["


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (HALF, r"line 2 is no JSON that can be read \(it has '\\udce9', half of a character"),
        (HALF.replace("\\udce9", "\\ud83d"), "half of a character"),
        (json.dumps({**ONE, "instance_id": "a__b-\ud800"}), "half of a character"),
        (json.dumps({**ONE, "\udfff": 1}), "half of a character"),
        (DEEP, "nested too deeply"),
        ('{"instance_id": ' + 5000 * "9" + "}", "line 2 is no JSON"),
        ("{broken", "line 2 is no JSON"),
        ("null", "line 2 holds no JSON object"),
        (json.dumps({**ONE, "instance_id": "a__b-2", "model_patch": ["+"]}), "needs a model_patch"),
        (json.dumps({**ONE, "instance_id": 300 * "b"}), "words that can name a file"),
    ],
)
def test_a_bad_prediction_takes_no_other_with_it(tmp_path: Path, bad: str, words: str) -> None:
    third = json.dumps({**ONE, "instance_id": "a__b-3", "model_patch": "+\U0001f40d"})
    refused = Refused()
    found = read_predictions(write(tmp_path / "p.jsonl", "\n".join((json.dumps(ONE), bad, third))), refused)
    assert found == {"a__b-1": ANSWER, "a__b-3": Prediction("a__b-3", "owner/model", "+\U0001f40d")}
    (sentence,) = refused.sentences
    assert re.search(words, sentence)


def test_bytes_that_are_no_text_cost_their_line_and_a_mark_before_the_text_costs_nothing(tmp_path: Path) -> None:
    latin = json.dumps({**ONE, "instance_id": "a__b-2", "model_patch": "+café"}, ensure_ascii=False).encode("latin-1")
    (tmp_path / "p.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(ONE).encode() + b"\r\n" + latin)
    refused = Refused()
    assert read_predictions(tmp_path / "p.jsonl", refused) == {"a__b-1": ANSWER}
    assert "line 2 is no JSON" in refused.sentences[0]


@pytest.mark.parametrize(
    "content", [[ONE, {**ONE, "instance_id": "a__b-2", "model_patch": "\udce9"}, 3], {"a__b-1": ONE, "\ud800": ONE, "c": 3}]
)
def test_a_bad_entry_of_a_list_or_a_table_fails_by_itself(tmp_path: Path, content: object) -> None:
    refused = Refused()
    assert read_predictions(write(tmp_path / "p.json", content), refused) == {"a__b-1": ANSWER}
    assert len(refused.errors) == 2


def test_of_two_answers_to_one_problem_neither_is_taken(tmp_path: Path) -> None:
    refused = Refused()
    other = {**ONE, "instance_id": "a__b-2"}
    assert list(read_predictions(write(tmp_path / "p.json", [ONE, other, {**ONE, "model_patch": "another"}]), refused)) == ["a__b-2"]
    assert "answers a__b-1 a second time" in refused.sentences[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl.gz").write_bytes(b"not gzip")
    for name in ("nowhere.jsonl", "p.jsonl.gz", "."):
        with pytest.raises(TaskError, match="cannot be read"):
            read_predictions(tmp_path / name)


def test_predictions_about_nothing_are_refused() -> None:
    known({"a__b-1": ANSWER}, ["a__b-1", "a__b-2"])
    with pytest.raises(TaskError, match=r"a prediction for a__b-1, which is none of the 1 tasks: did you mean a__b-2\?"):
        known({"a__b-1": ANSWER}, ["a__b-2"])
    with pytest.raises(TaskError, match="name the tasks that it was made for"):
        known({"a__b-1": ANSWER}, ["zzz"])
    refused = Refused()
    assert known({"a__b-1": ANSWER, "x": ANSWER, "y": ANSWER}, ["a__b-1"], refused) == {"a__b-1": ANSWER}
    assert refused.sentences == [
        "There is a prediction for x (and 1 more), which is none of the 1 tasks: name the tasks that it was made for."
    ]


def test_gold_needs_solutions() -> None:
    assert gold_predictions({"a": "diff"}) == {"a": Prediction("a", "gold", "diff")}
    with pytest.raises(TaskError, match="Task b comes without its solution"):
        gold_predictions({"a": "diff", "b": ""})
    assert list(gold_predictions({"a": "diff", "b": ""}, Refused())) == ["a"]


ROW = {"instance_id": "a__b-1", "repo": "django/django", "FAIL_TO_PASS": '["mend"]', "PASS_TO_PASS": ["keep"], "patch": "diff"}


def test_rows_hold_their_lists_as_lists_or_as_text(tmp_path: Path) -> None:
    expected = {"a__b-1": Row("a__b-1", Checks(("mend",), ("keep",), parser="parse_log_django"), "diff")}
    assert read_rows(write(tmp_path / "r.jsonl.gz", json.dumps(ROW) + "\n")) == expected
    assert read_rows(write(tmp_path / "r.json", ROW)) == read_rows(write(tmp_path / "l.json", [ROW])) == expected


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**ROW, "FAIL_TO_PASS": "[mend]"}], "FAIL_TO_PASS is no JSON"),
        ([{**ROW, "PASS_TO_PASS": [1]}], "has no PASS_TO_PASS with names of tests"),
        ([{"instance_id": "a__b-1"}], "has no FAIL_TO_PASS"),
        ([{"repo": "a/b"}], "has no instance_id"),
        ([{**ROW, "eval_type": "fail_only"}], "is graded by fail_only"),
        ([ROW, ROW], "more than one row a__b-1"),
        ([], "has no rows"),
    ],
)
def test_broken_rows_are_one_sentence(tmp_path: Path, rows: list[object], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        read_rows(write(tmp_path / "r.json", rows))


def test_a_bad_row_takes_no_other_with_it(tmp_path: Path) -> None:
    bad = [{**ROW, "instance_id": "a__b-2", "FAIL_TO_PASS": '["\\ud800"]'}, {**ROW, "patch": "\udce9"}, 3, {**ROW, "instance_id": ["x"]}]
    odd = {**ROW, "instance_id": "a__b-3", "install_config": '{"log_parser": "x"}'}
    refused = Refused()
    assert list(read_rows(write(tmp_path / "r.jsonl", "\n".join(map(json.dumps, [ROW, *bad, odd]))), refused)) == ["a__b-1", "a__b-3"]
    assert len(refused.errors) == len(bad)


def test_the_report_of_an_instance() -> None:
    assert instance_report(ANSWER, Graded(verdict(*RAN, mend="passed", keep="failed"))) == {
        "a__b-1": {
            "patch_is_None": False,
            "patch_exists": True,
            "patch_successfully_applied": True,
            "resolved": False,
            "infra_failure": False,
            "tests_status": {
                "FAIL_TO_PASS": {"success": ["mend"], "failure": []},
                "PASS_TO_PASS": {"success": [], "failure": ["keep"]},
                "FAIL_TO_FAIL": {"success": [], "failure": []},
                "PASS_TO_FAIL": {"success": [], "failure": []},
            },
        }
    }


def test_the_report_of_an_instance_whose_tests_were_not_read() -> None:
    told = instance_report(ANSWER, Graded(verdict("applied"), failure=("out_of_memory", True)))["a__b-1"]
    assert told == {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": False,
        "resolved": False,
        "infra_failure": True,
        "infra_failure_reason": "out_of_memory",
    }


def test_the_report_of_a_run(tmp_path: Path) -> None:
    tasks = ["good", "bad", "broken", "unread", "empty", "none", "unasked"]
    predictions = {name: Prediction(name, "owner/model", {"empty": "", "none": None}.get(name, "diff")) for name in tasks[:-1]}
    graded = {
        "good": Graded(verdict(*RAN, mend="passed", keep="skipped"), failure=("missing_module", False)),
        "bad": Graded(verdict("applied"), failure=("missing_module", False)),
        "broken": Graded(verdict(fault="gone"), failure=("sandbox_fault", True)),
        "unread": Graded(None, "no log"),
    }
    report = run_report(tasks, predictions, graded)
    assert report == {
        "total_instances": 7,
        "submitted_instances": 6,
        "completed_instances": 2,
        "resolved_instances": 1,
        "unresolved_instances": 1,
        "infra_failure_instances": 1,
        "ambiguous_failure_instances": 1,
        "empty_patch_instances": 2,
        "error_instances": 2,
        "completed_ids": ["bad", "good"],
        "incomplete_ids": ["unasked"],
        "empty_patch_ids": ["empty", "none"],
        "submitted_ids": ["bad", "broken", "empty", "good", "none", "unread"],
        "resolved_ids": ["good"],
        "unresolved_ids": ["bad"],
        "infra_failure_ids": ["broken"],
        "ambiguous_failure_ids": ["bad"],
        "failure_reasons": {"bad": "missing_module", "broken": "sandbox_fault"},
        "error_ids": ["broken", "unread"],
        "schema_version": 2,
    }
    path = write_run(tmp_path, "try", predictions, report)
    assert path == tmp_path / "owner__model.try.json"
    assert json.loads(path.read_text()) == report


def test_an_instance_has_a_folder_of_its_own(tmp_path: Path) -> None:
    place = write_instance(tmp_path, "try", ANSWER, {"a__b-1": {"resolved": True}})
    assert place == tmp_path / "logs/run_evaluation/try/owner__model/a__b-1"
    assert json.loads((place / "report.json").read_text())["a__b-1"]["resolved"]
    assert (place / "patch.diff").read_text() == "diff"


def test_hints_at_a_broken_environment() -> None:
    assert failure_reason("x\nKilled\ny") == ("out_of_memory", True)
    assert failure_reason("ModuleNotFoundError: x") == ("missing_module", False)
    assert failure_reason("he was Killed by it") is None
