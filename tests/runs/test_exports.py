"""Attempts in the formats of others: what their packages read is what lies in the run, and what is hidden is nowhere.

ATIF is held against the package `atif`. Packages that are too large to be installed with the tests read theirs in tests/guests.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.runs.exported import ANNOUNCED, attempts
from tests.runs.exported import run as run
from tests.runs.test_pipeline import needs_bubblewrap

from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.errors import ConfigError, Refused
from patchgrad.grading.handed_in import predicted
from patchgrad.grading.predictions import read_predictions
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes.component import Component
from patchgrad.runs.exports.conversations import conversations
from patchgrad.runs.exports.exporting import FORMATS, Wanted, exported
from patchgrad.runs.exports.hidden import Hidden
from patchgrad.runs.imports.importing import imported
from patchgrad.store import Run
from patchgrad.values import Call

pytestmark = needs_bubblewrap


def test_messages_encode_to_the_tokens_that_the_policy_has_read(run: Run) -> None:
    refused, tokenizer, known = Refused(), ChatTokenizer.load(run.checkpoints.find()), attempts(run)
    told = list(conversations(run, "*", refused))
    assert {one.rollout.trajectory.id for one in told} == set(known)
    assert not refused.errors
    assert all(one.proved for one in told)
    announced = 0
    for one in told:
        previous = None
        for exchange in one.exchanges:
            spelt = tokenizer.encode(exchange.messages, None if exchange.begins else previous)
            assert np.array_equal(spelt, exchange.turn.context)
            announced += exchange.messages[-1].content.startswith(("1 turn is left", "2 turns are left"))
            previous = exchange.turn.action
    assert announced, "no attempt was told of its last turns"


def test_what_the_agent_would_say_otherwise_now_is_told_and_not_exported(run: Run, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(run.folder, changed)
    other = replace(ANNOUNCED, agent=replace(ANNOUNCED.agent, prompts="full", scaffold=Component("react")))
    (changed / "recipe.toml").write_text(dumps(other))
    refused = Refused()
    assert not list(conversations(Run.open(changed), "stage1", refused))
    assert "its agent now says something else" in refused.sentences[0]


def test_trajectories_are_those_of_atif_and_have_the_tokens_of_the_run(run: Run, tmp_path: Path) -> None:
    atif = pytest.importorskip("atif")
    known = attempts(run)
    assert exported(run, "atif", Wanted(), tmp_path / "out", Refused()) == len(known)
    for path in (tmp_path / "out").iterdir():
        read = atif.Trajectory.model_validate_json(path.read_text())
        one = known[read.trajectory_id]
        turns = one.trajectory.turns
        said = [step for step in read.steps if step.source == "agent"]
        assert [step.message for step in said] == [turn.action.text for turn in turns]
        assert [step.metrics.completion_token_ids for step in said] == [turn.action.token_ids.tolist() for turn in turns]
        assert [step.metrics.prompt_token_ids for step in said] == [turn.context.tolist() for turn in turns]
        assert [step.metrics.logprobs for step in said] == [turn.action.logprobs.tolist() for turn in turns]
        assert [step.observation.results[0].content for step in said] == [turn.observation.content for turn in turns]
        called = [bool(step.tool_calls) for step in said]
        assert called == [isinstance(turn.call, Call) for turn in turns]
        assert (read.extra["solved"], read.extra["reward"]) == (one.solved, one.reward.value)


def test_a_parquet_file_has_the_messages_of_each_attempt(run: Run, tmp_path: Path) -> None:
    import pyarrow.parquet

    known, path = attempts(run), tmp_path / "out.parquet"
    assert exported(run, "hf-messages", Wanted(), path, Refused()) == len(known)
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert {row["trajectory_id"] for row in rows} == set(known)
    for row in rows:
        one = known[row["trajectory_id"]]
        assert [said["content"] for said in row["messages"] if said["role"] == "assistant"] == [t.action.text for t in one.trajectory.turns]
        assert not row["messages"] or one.task.instruction.strip() in row["messages"][0]["content"]
        assert bool(row["messages"]) == bool(one.trajectory.turns)
        assert (row["resolved"], row["model_patch"], row["exit_status"]) == (one.solved, one.trajectory.submission, one.trajectory.stop)


@pytest.mark.parametrize("format", ["atif", "hf-messages"])
def test_what_is_exported_can_be_imported_again(run: Run, format: str, tmp_path: Path) -> None:
    known = attempts(run)
    exported(run, format, Wanted(), tmp_path / "out.parquet", Refused())
    refused = Refused()
    found = imported([str(tmp_path / "out.parquet")], tmp_path / "again", refused)
    assert not refused.errors
    assert found.attempts == len(known)
    for one in Run.open(tmp_path / "again").rollouts.read("evaluate"):
        was, now = known[one.trajectory.id].trajectory, one.trajectory
        assert [turn.action.text for turn in now.turns] == [turn.action.text for turn in was.turns]
        assert (now.stop, now.submission, one.solved) == (was.stop, was.submission, known[was.id].solved)
        if format == "atif":
            assert [turn.observation.content for turn in now.turns] == [turn.observation.content for turn in was.turns]
            calls = [(turn.call, again.call) for turn, again in zip(was.turns, now.turns, strict=True) if isinstance(turn.call, Call)]
            assert all(call == again for call, again in calls)


def test_the_attempts_of_one_phase_or_the_solved_ones_are_exported_alone(run: Run, tmp_path: Path) -> None:
    known = attempts(run)
    wanted = {name for name in known if name.startswith("stage1/")}
    assert exported(run, "atif", Wanted("stage1"), tmp_path / "phase", Refused()) == len(wanted)
    solved = {name for name, one in known.items() if one.solved}
    found = {one.rollout.trajectory.id for one in Wanted(solved=True).of(run, Refused())}
    assert found == solved != set(known)
    with pytest.raises(ConfigError, match="no attempts of the phase stage7"):
        exported(run, "atif", Wanted("stage7"), tmp_path / "none", Refused())


def test_logs_have_a_sample_for_each_attempt_and_the_score_of_its_tests(run: Run, tmp_path: Path) -> None:
    known = attempts(run)
    exported(run, "inspect", Wanted(), tmp_path / "logs", Refused())
    seen: dict[str, bool] = {}
    for path in (tmp_path / "logs").iterdir():
        with zipfile.ZipFile(path) as log:
            samples = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]
            assert len(samples) == len(json.loads(log.read("summaries.json")))
        seen |= {sample["metadata"]["attempt"]: sample["scores"]["hidden tests"]["value"] == "C" for sample in samples}
    assert seen == {name: one.solved for name, one in known.items()}


def test_what_is_hidden_is_in_no_export_and_its_tokens_are_left_out(run: Run, tmp_path: Path) -> None:
    known = attempts(run)
    word = next(word for word in next(iter(known.values())).task.instruction.split() if word.isalpha() and len(word) > 3)
    hidden = Hidden.of([word], "[gone]")
    for name in ("atif", "hf-messages", "inspect"):
        out = tmp_path / name
        exported(run, name, Wanted(hidden=hidden), out, Refused())
    for path in (tmp_path / "atif").iterdir():
        told = json.loads(path.read_text())
        assert word not in path.read_text()
        assert "[gone]" not in path.read_text() or not any("prompt_token_ids" in step.get("metrics", {}) for step in told["steps"])
    import pyarrow.parquet

    assert word not in str(pyarrow.parquet.read_table(tmp_path / "hf-messages").to_pylist())
    for path in (tmp_path / "inspect").iterdir():
        with zipfile.ZipFile(path) as log:
            assert not [name for name in log.namelist() if word in log.read(name).decode()]


@pytest.mark.parametrize("pattern", ["(", "x*", ""])
def test_a_pattern_that_hides_nothing_or_everything_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="--hide"):
        Hidden.of([pattern])


def test_an_evaluation_is_handed_in_as_swe_bench_has_it(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", str(run.folder), "--to", "swebench", "--out", str(out)]) == 2
    assert "--phase names the attempts" in capsys.readouterr().err
    assert main(["export", str(run.folder), "--to", "swebench", "--phase", "evaluate-1", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in (out / "predictions.run-1.jsonl").read_text().splitlines()]
    assert {row["instance_id"] for row in rows} == set(run.results.reports()[0].outcomes)
    assert set(rows[0]) == {"instance_id", "model_name_or_path", "model_patch"}
    assert main(["export", str(run.folder), "--to", "swebench", "--phase", "evaluate-1", "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_predictions_are_a_file_of_the_first_attempts_that_did_not_break(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(run.folder), "--to", "predictions", "--phase", "evaluate-1"]
    assert main([*words, "--out", str(tmp_path / "new" / "mine.jsonl")]) == 0
    found = read_predictions(tmp_path / "new" / "mine.jsonl")
    first = {one.task.id: one for one in reversed(run.rollouts.read("evaluate-1", 0))}
    assert {name: one.patch for name, one in found.items()} == {name: one.handed_in for name, one in first.items()}
    assert f"{len(found)} attempts" in capsys.readouterr().out
    assert main(["export", str(run.folder), "--to", "swebench", "--phase", "evaluate-1", "--out", str(tmp_path / "runs")]) == 0
    assert (tmp_path / "new" / "mine.jsonl").read_bytes() == (tmp_path / "runs" / "predictions.run-1.jsonl").read_bytes()
    broken = replace(first[next(iter(first))], verdict=replace(first[next(iter(first))].verdict, fault="its sandbox was lost"))
    assert set(predicted("mine", [broken, *list(first.values())[1:]])) == set(list(first)[1:])
    assert main([*words, "--solved", "--out", str(tmp_path / "some.jsonl")]) == 2
    assert main(["export", str(run.folder), "--to", "predictions", "--out", str(tmp_path / "all.jsonl")]) == 2
    assert "--phase names the attempts" in capsys.readouterr().err
    assert not (tmp_path / "some.jsonl").exists()


@pytest.mark.parametrize("format", ["atif", "hf-messages", "inspect"])
def test_an_export_makes_the_folders_above_it(run: Run, format: str, tmp_path: Path) -> None:
    assert exported(run, format, Wanted("stage1"), tmp_path / "new" / "deep" / "out", Refused())


def test_the_formats_of_the_command_are_those_that_there_are() -> None:
    from patchgrad.cli import export

    assert set(export.FORMATS) == set(FORMATS)
