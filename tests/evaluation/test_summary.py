"""From attempts to a report and to words: what counts, what is bounded, and what an older report can still tell."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.attempts import attempt, group, report

from patchgrad.evaluation import PROTOCOLS, details, markdown, shares, summarise, versus
from patchgrad.evaluation.summary import Measured, counts, from_outcomes, outcomes_of
from patchgrad.evaluation.table import row
from patchgrad.store import finite, plain, value
from patchgrad.values import Action, Group, Report, Rollout, Segment, Usage, floats, ids

SEEDS = Path(__file__).parents[2] / "docs" / "studies" / "laptop-seeds"


def test_a_report_counts_what_happened() -> None:
    groups = [group("a", True, False), group("b", False, False), group("c", True, True)]
    report = summarise("base", groups, Measured(2, 90.0, {"turns": 8}))
    assert (report.pass_at_1.mean, report.submitted.mean) == (0.5, 1.0)
    assert report.pass_at_k.mean == pytest.approx(2 / 3)
    assert (report.tasks, report.attempts, report.turns, report.action_tokens) == (3, 2, 1.0, 2.0)
    assert shares(report) == {"a": 0.5, "b": 0.0, "c": 1.0}
    assert report.stops == {"submitted": 6}
    assert report.outcomes == {"a": (True, False), "b": (False, False), "c": (True, True)}
    assert row(report) == ("base", "50.0 ± 28.9", "7.6 to 92.4", "66.7 (k=2)", "100 %", "1.0", "1.5")


def test_what_infrastructure_broke_is_no_attempt() -> None:
    broken = Group((attempt("a", True), attempt("a", False, fault="no disk"), attempt("a", False, "failed")))
    gone = Group((attempt("b", False, "failed"),))
    report = summarise("base", [broken, gone], Measured(3, 1.0, {}))
    assert (report.faults, report.tasks, report.pass_at_1.mean, report.pass_at_k.mean) == (3, 1, 1.0, 1.0)
    assert report.outcomes == {"a": (True, None, None), "b": (None,)}
    assert [report.worst, report.best] == pytest.approx([1 / 6, 1.0])
    assert "Broken attempts, which count nowhere: 3. Pass@1 would be 16.7 % if all of them had failed, and 100.0 %" in details(report)[-1]
    assert shares(report) == {"a": 1.0}


def test_an_empty_evaluation_still_prints() -> None:
    empty = summarise("base", [], Measured(4, 0.0, {}))
    assert row(empty) == ("base", "-", "-", "- (k=4)", "-", "-", "0.0")
    assert details(empty) == ["Nothing was measured: no task has an attempt that came to its end."]


def test_the_table_is_markdown() -> None:
    text = markdown([summarise("base", [group("a", True, False), group("b", False, False)], Measured(2, 60.0, {}))])
    assert text.splitlines()[0] == "| policy | Pass@1 | 95 % | Pass@k | submitted | turns | minutes |"
    assert text.splitlines()[2] == "| base | 25.0 ± 25.0 | 0.9 to 92.1 | 50.0 (k=2) | 100 % | 1.0 | 1.0 |"


def test_of_tasks_of_several_kinds_the_table_has_a_column_for_each() -> None:
    groups = [
        group("a", True, True, source="workshop"),
        group("b", True, False, source="forge"),
        group("c", False, False, source="forge"),
    ]
    report = summarise("base", groups, Measured(2, 60.0, {}))
    assert {kind: share.mean for kind, share in report.parts.items()} == {"generated": 1.0, "planted in packages": 0.25}
    assert report.pass_at_1.mean == pytest.approx(0.5)
    older = replace(report, name="older", parts={})
    text = markdown([older, report]).splitlines()
    assert text[0].endswith("| minutes | generated | planted in packages |")
    assert text[2].endswith("| - | - |")
    assert text[3].endswith("| 100.0 | 25.0 ± 25.0 |")
    assert summarise("base", groups[1:], Measured(2, 60.0, {})).parts == {}, "of one kind there are no parts"


def test_every_limit_and_the_sampling_stand_beside_the_number() -> None:
    limits = {"turns": 20.0, "context": 2048.0, "action_tokens": 48.0, "seconds": 600.0}
    groups = [group("a", True, False), group("b", False, False)]
    told = " ".join(details(summarise("base", groups, Measured(2, 60.0, limits, sampling={"temperature": 1.0, "top_p": 0.9}))))
    assert "Limits: 20 turns, 2,048 tokens of context, 48 tokens an action, 600 seconds an attempt." in told
    assert "Used on average: 1.0 turns, 3 tokens of context, 2 tokens sampled; 1.0 minutes in all." in told
    assert "Sampling: temperature 1, top_p 0.9." in told
    assert "On these tasks alone it is 25.0 ± 25.00 % with its standard error over runs, 95 % interval " in told


def test_turns_that_failed_are_told_in_percent_of_all() -> None:
    report = replace(from_outcomes("base", {"a": (True, False)}, 1, 1.0), stops={"submitted": 2}, turns=10.0, failures={"looping": 3})
    assert "Of 20 turns failed: looping 15.0 %." in details(report)


def test_the_best_of_n_is_known_where_attempts_have_scores() -> None:
    groups = [group("a", True, False), group("b", False, True)]
    scores = {"a": [1.0, 0.0], "b": [1.0, 0.0]}
    found = summarise("base", groups, Measured(2, 60.0, {}, about={"best_of": "a coin"}), scores)
    assert found.best_at_n.mean == 0.5
    assert any(line.startswith("Best@2 by a coin: 50.0 ±") for line in details(found))
    assert math.isnan(summarise("base", groups, Measured(2, 60.0, {})).best_at_n.mean)


def test_tokens_are_those_that_a_server_counted_where_it_did() -> None:
    one = attempt("a", True)
    (turn,) = one.trajectory.turns
    said = replace(turn, action=Action(ids([7] * 9), floats([]), 0, "x", "stop", Usage(100, 20)))
    served = Group((Rollout(one.task, replace(one.trajectory, segments=(Segment((said,)),)), one.verdict, one.reward),))
    found = summarise("served", [served], Measured(1, 1.0, {}))
    assert (found.action_tokens, found.context_tokens) == (20.0, 120.0)


def test_a_protocol_tells_the_figures_of_its_tables() -> None:
    found = PROTOCOLS["swe-rebench"].told(report("a", [[True, False, True, False, True], [False] * 5], k=5))
    assert found.endswith("resolved 30.0 % with a standard error of 12.25 over 5 runs, pass@5 50.0 %.")


@pytest.mark.parametrize("path", sorted(SEEDS.glob("*.json")), ids=lambda path: path.stem)
def test_a_report_of_an_older_run_is_read_printed_and_compared(path: Path) -> None:
    reports = [value(Report, kept) for kept in json.loads(path.read_text())["reports"]]
    assert all(row(one)[0] == one.name and details(one) for one in reports)
    for one in reports:
        assert sum(shares(one).values()) / one.tasks == pytest.approx(one.pass_at_1.mean)
        assert outcomes_of(one).keys() == one.solved.keys()
        assert all(attempts == one.attempts for _, attempts in counts(one))
    assert versus(reports[0], reports[-1]).comparison.tasks == reports[0].tasks


def test_a_report_is_stored_whole_with_what_is_not_known() -> None:
    made = report("a", [[True, None], [False, True]], turns=8)
    assert value(Report, json.loads(json.dumps(finite(plain(made)), allow_nan=False))) == made
