"""Attempts of others: what their files say is what the folder holds, and a row that cannot be read takes no other with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents.gateway.history import Said
from patchgrad.cli import main
from patchgrad.errors import ConfigError, Refused
from patchgrad.policies.endpoint.framing import read
from patchgrad.runs.exports.conversations import conversations
from patchgrad.runs.exports.exporting import Wanted, exported
from patchgrad.runs.imports.importing import Found, imported
from patchgrad.runs.imports.made import call_of, rollout_of, stop_of, task_of
from patchgrad.runs.imports.told import Told, truth
from patchgrad.store import Run
from patchgrad.values import Call, Rollout
from patchgrad.viewer.page import page
from patchgrad.viewer.site.listed import chunks, listed
from patchgrad.viewer.site.shown import shown

ISSUE = {"role": "user", "content": "`parse` loses the last line."}
SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "You are an agent.", "tool_calls": None},
    ISSUE,
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'}}],
    },
    {"role": "tool", "content": "a.py", "name": "execute_bash", "tool_call_id": "c1"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c2", "type": "function", "function": {"name": "edit", "arguments": '{"command": "view", "path": "a.py"}'}},
            {"id": "c3", "type": "function", "function": {"name": "finish", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "content": "1 import os", "tool_call_id": "c2"},
    {"role": "tool", "content": "", "tool_call_id": "c3"},
]
OPENHANDS = {
    "instance_id": "owner__name-1",
    "trajectory_id": "chatcmpl-1",
    "resolved": 1,
    "model_patch": "diff --git a/a.py b/a.py\n",
    "exit_status": "submit",
    "trajectory": SAID,
}
SWE_AGENT = {
    "instance_id": "owner__name-2",
    "model_name": "swe-agent-llama-70b",
    "target": False,
    "exit_status": "exit_context",
    "generated_patch": None,
    "trajectory": [
        {"role": "system", "system_prompt": "SETTING: a terminal.", "text": None, "mask": None, "cutoff_date": "01.01.2023"},
        {"role": "user", "text": ISSUE["content"], "mask": False},
        {"role": "ai", "text": "DISCUSSION\nLook.\n```\nls -la\n```", "mask": False},
        {"role": "user", "text": "total 3", "mask": False},
    ],
}
SWE_SMITH = {
    "instance_id": "owner__name-3",
    "traj_id": "owner__name-3.run1",
    "resolved": True,
    "patch": "diff --git a/b.py b/b.py\n",
    "model": "claude-3-7-sonnet-20250219",
    "messages": json.dumps(
        [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": [{"type": "text", "text": ISSUE["content"]}]},
            {"role": "assistant", "content": "Look.\n<function=bash>\n<parameter=command>cd /testbed && ls</parameter>\n</function>"},
        ]
    ),
}
MINI: dict[str, Any] = {
    "info": {"exit_status": "LimitsExceeded", "submission": "", "config": {"model": {"model_name": "qwen3"}}},
    "messages": [ISSUE, {"role": "assistant", "content": "THOUGHT: look.\n\n```bash\nls\n```"}, {"role": "user", "content": "a.py"}],
    "trajectory_format": "mini-swe-agent-1.1",
}
ANTHROPIC = {
    "instance_id": "owner__name-4",
    "resolved": False,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": ISSUE["content"]}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Look."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]},
    ],
}
SETS: dict[str, dict[str, Any]] = {
    "openhands": OPENHANDS,
    "swe-agent": SWE_AGENT,
    "swe-smith": SWE_SMITH,
    "mini": MINI,
    "anthropic": ANTHROPIC,
}
CALLS = {
    "openhands": [Call("execute_bash", "ls"), Call("edit", '{"command": "view", "path": "a.py"}')],
    "swe-agent": [Call("shell", "ls -la")],
    "swe-smith": [Call("bash", "cd /testbed && ls")],
    "mini": [Call("shell", "ls")],
    "anthropic": [Call("Bash", "ls")],
}
STOPS = {
    "openhands": "submitted",
    "swe-agent": "context limit",
    "swe-smith": "submitted",
    "mini": "turn limit",
    "anthropic": "abstained",
}
TRAJECTORY: dict[str, Any] = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s1",
    "agent": {"name": "terminus-2", "version": "2.0", "model_name": "anthropic/claude"},
    "steps": [
        {"step_id": 1, "source": "user", "message": ISSUE["content"]},
        {
            "step_id": 2,
            "source": "agent",
            "message": "Look.",
            "reasoning_content": "Where is it?",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]},
            "metrics": {"prompt_tokens": 120, "completion_tokens": 7},
        },
    ],
}


def lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def taken(folder: Path, *sources: str, **asked: Any) -> tuple[Found, list[Rollout], list[str]]:
    """What was found, the attempts as the folder has them, and what was refused."""
    refused = Refused()
    found = imported(sources, folder, refused, **asked)
    return found, Run.open(folder).rollouts.read("evaluate"), refused.sentences


@pytest.mark.parametrize("name", SETS)
def test_a_row_of_the_sets_that_are_used_most_is_an_attempt(name: str, tmp_path: Path) -> None:
    found, (one,), refused = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", SETS[name]))
    assert not refused
    assert found.attempts == 1
    assert [turn.call for turn in one.trajectory.turns] == CALLS[name]
    assert one.trajectory.stop == STOPS[name]
    assert one.task.instruction == ISSUE["content"]
    assert (one.solved, one.broken) == ({"openhands": True, "swe-smith": True}.get(name, False), name == "mini")
    assert not any(turn.action.trainable for turn in one.trajectory.turns)


def test_all_calls_of_a_message_and_all_their_answers_are_there(tmp_path: Path) -> None:
    _, (one,), _ = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", OPENHANDS))
    first, last = one.trajectory.turns
    assert first.action.text == 'I look.\n<tool_call>\n{"name": "execute_bash", "arguments": {"command": "ls"}}\n</tool_call>'
    assert first.observation.content == "a.py"
    assert last.action.text.count("<tool_call>") == 2
    assert last.observation.content == "1 import os\n"


def test_a_parquet_file_a_list_and_a_folder_of_files_hold_the_same_attempts(tmp_path: Path) -> None:
    rows, folder = [OPENHANDS, {**OPENHANDS, "instance_id": "owner__name-9", "trajectory_id": "chatcmpl-9"}], tmp_path / "many"
    folder.mkdir()
    for number, row in enumerate(rows):
        (folder / f"{number}.traj").write_text(json.dumps(row))
    (folder / "notes.txt").write_text("no attempt")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    known = [
        [turn.address for one in taken(tmp_path / f"out-{number}", str(tmp_path / source))[1] for turn in one.trajectory.turns]
        for number, source in enumerate(("rows.parquet", "rows.json", "many"))
    ]
    assert len(known[0]) == 4
    assert known[0] == known[1] == known[2]


def test_a_trial_of_harbor_has_the_task_and_the_reward_that_its_result_tells(tmp_path: Path) -> None:
    trial = tmp_path / "job" / "fix-parse__abc"
    (trial / "agent").mkdir(parents=True)
    (trial / "agent" / "trajectory.json").write_text(json.dumps(TRAJECTORY))
    (trial / "result.json").write_text(
        json.dumps({"task_name": "fix-parse", "trial_name": "fix-parse__abc", "verifier_result": {"rewards": {"reward": 1.0}}})
    )
    (trial / "config.json").write_text("{}")
    found, (one,), refused = taken(tmp_path / "out", str(tmp_path / "job"))
    assert not refused
    assert found.others == 2, "the result and the settings of a trial are no attempts"
    assert (one.trajectory.task, one.solved) == ("fix-parse", True)
    (turn,) = one.trajectory.turns
    assert turn.call == Call("bash", "ls")
    assert turn.action.text.startswith("<think>\nWhere is it?\n</think>\n\nLook.")
    assert turn.action.tokens == 7
    assert list(found.policies) == ["anthropic/claude"]


def test_a_trial_is_one_attempt_whatever_lies_beside_its_trajectory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tmp_path / "job" / "fix__abc" / "agent"
    agent.mkdir(parents=True)
    for name in ("trajectory.json", "trajectory.cont-1.json", "trajectory.cont-10.json", "trajectory.cont-2.json"):
        (agent / name).write_text(json.dumps({**TRAJECTORY, "session_id": name, "extra": {"name": name}}))
    (agent / "trajectory.summarization-1-summary.json").write_text(json.dumps(TRAJECTORY))
    (agent / "mini-swe-agent.trajectory.json").write_text(json.dumps(MINI))
    (agent.parent / "result.json").write_text(
        json.dumps({"task_name": "fix", "trial_name": "fix__abc", "verifier_result": {"rewards": {"reward": 0.5}}})
    )
    _, (one,), refused = taken(tmp_path / "out", str(tmp_path / "job"))
    assert not refused
    assert (one.trajectory.id, one.trajectory.task, one.solved, one.broken) == ("fix__abc", "fix", False, False)
    assert len(one.trajectory.segments) == 4
    monkeypatch.chdir(agent)
    _, (alone,), _ = taken(tmp_path / "alone", "trajectory.json")
    assert (alone.trajectory.task, len(alone.trajectory.segments)) == ("fix", 1)


def test_trajectories_without_a_trial_have_the_names_of_their_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "exports").mkdir(exist_ok=True)
        told = [{"step_id": 1, "source": "user", "message": name}, *TRAJECTORY["steps"][1:]]
        (tmp_path / "exports" / f"{name}.json").write_text(json.dumps({**TRAJECTORY, "steps": told}))
    _, attempts, _ = taken(tmp_path / "out", str(tmp_path / "exports"))
    assert [(one.task.id, one.task.instruction) for one in attempts] == [("one", "one"), ("two", "two")]


def test_a_name_with_dots_is_whole(tmp_path: Path) -> None:
    for name in ("owner__name.1fd5.combine__aa.traj", "owner__name.1fd5.func__bb.traj", "owner__Name.js-10.traj.json"):
        (tmp_path / name).write_text(json.dumps({"messages": MINI["messages"]}))
    _, attempts, _ = taken(tmp_path / "out", str(tmp_path))
    assert [one.task.id for one in attempts] == ["owner__Name.js-10", "owner__name.1fd5.combine__aa", "owner__name.1fd5.func__bb"]


def test_the_last_message_of_mini_swe_agent_says_how_it_ended(tmp_path: Path) -> None:
    left = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
    whole = {**MINI, "info": {"exit_status": "Submitted", "submission": "diff"}, "messages": [*MINI["messages"], left]}
    (tmp_path / "x.traj.json").write_text(json.dumps(whole))
    _, (one,), refused = taken(tmp_path / "out", str(tmp_path / "x.traj.json"))
    assert not refused
    assert (one.trajectory.stop, one.trajectory.submission, len(one.trajectory.turns)) == ("submitted", "diff", 1)


def test_the_solution_of_a_task_is_no_patch_of_the_agents(tmp_path: Path) -> None:
    rows = [{**ANTHROPIC, "instance_id": name, "model_patch": own, "patch": "GOLD"} for name, own in (("a", ""), ("b", None))]
    _, attempts, _ = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", *rows))
    assert [(one.trajectory.submission, one.trajectory.stop) for one in attempts] == [("", "abstained")] * 2


def test_a_demonstration_is_read_and_not_done(tmp_path: Path) -> None:
    shown = [{"role": "user", "content": "Watch.", "is_demo": True}, {"role": "assistant", "content": "```\nls\n```", "is_demo": True}]
    row = {"instance_id": "t", "resolved": False, "history": [{"role": "system", "content": "s"}, *shown, *MINI["messages"]]}
    _, (one,), _ = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", row))
    (turn,) = one.trajectory.turns
    assert [message.content for message in read(turn.context)] == ["s", f"Watch.\n```\nls\n```\n{ISSUE['content']}"]


def test_names_of_sharegpt_are_read_too(tmp_path: Path) -> None:
    said = [{"from": "human", "value": "Fix it."}, {"from": "gpt", "value": "```bash\nls\n```"}, {"from": "observation", "value": "a.py"}]
    row = {"id": "t", "system": "You are an agent.", "resolved": True, "conversations": said}
    _, (one,), refused = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", row))
    assert not refused
    (turn,) = one.trajectory.turns
    assert [(message.role, message.content) for message in read(turn.context)] == [("system", "You are an agent."), ("user", "Fix it.")]
    assert (turn.call, turn.observation.content) == (Call("shell", "ls"), "a.py")


@pytest.mark.parametrize(("agent", "turns", "replayed"), [("patchgrad", 2, 1), ("terminus-2", 1, 0)])
def test_what_an_earlier_trajectory_said_is_no_turn_of_this_one(agent: str, turns: int, replayed: int, tmp_path: Path) -> None:
    copied = [{**step, "is_copied_context": True} for step in TRAJECTORY["steps"]]
    whole = {**TRAJECTORY, "agent": {"name": agent}, "steps": [*copied, TRAJECTORY["steps"][1]], "extra": {"origin": "a", "solved": True}}
    (tmp_path / "one.json").write_text(json.dumps(whole))
    _, (one,), _ = taken(tmp_path / "out", str(tmp_path / "one.json"))
    assert (len(one.trajectory.turns), one.trajectory.replayed) == (turns, replayed)
    assert "a.py" in read(one.trajectory.turns[0].context)[-1].content or replayed


def test_an_archive_in_a_folder_is_no_file_of_attempts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "logs.tar.gz").write_bytes(b"no attempt")
    lines(tmp_path / "in" / "rows.jsonl", OPENHANDS)
    found, _, refused = taken(tmp_path / "out", str(tmp_path / "in"))
    assert (found.attempts, refused) == (1, [])


OLD_CALL = {"role": "assistant", "content": "Look.", "function_call": {"name": "bash", "arguments": '{"command": "ls"}'}}
FLAT_CALL = {"role": "assistant", "content": "Look.", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
TEXT_CALL = {"role": "assistant", "content": "Look.", "tool_calls": json.dumps(FLAT_CALL["tool_calls"])}
THOUGHT_CALL = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Look."}],
    "tool_calls": FLAT_CALL["tool_calls"],
}


@pytest.mark.parametrize("message", [OLD_CALL, FLAT_CALL, TEXT_CALL, THOUGHT_CALL], ids=["old", "flat", "text", "thought"])
def test_calls_are_found_under_the_names_that_they_had(message: dict[str, Any], tmp_path: Path) -> None:
    row = {"instance_id": "t", "resolved": True, "messages": [ISSUE, message, {"role": "tool", "content": "a.py"}]}
    _, (one,), refused = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", row))
    assert not refused
    (turn,) = one.trajectory.turns
    assert turn.call == Call("bash", "ls")
    assert ("<think>\nhm\n</think>" in turn.action.text) == (message is THOUGHT_CALL)


def odd_rows() -> list[dict[str, Any]]:
    """Rows whose parts have another form than they should."""
    spoilt: list[dict[str, Any]] = [
        {"tool_calls": [{"function": {"name": 5, "arguments": {}}}]},
        {"tool_calls": 5},
        {"tool_calls": [5]},
        {"tool_calls": [{"function": {"name": "bash", "arguments": "[" * 200_000}}]},
        {"tool_calls": "[" * 5_000},
        {"content": 5},
        {"role": "narrator"},
    ]
    steps: list[dict[str, Any]] = [
        {"source": ["agent"]},
        {"tool_calls": 5},
        {"tool_calls": [{}]},
        {"observation": {"results": ["o"]}},
        {"observation": {"results": 5}},
    ]
    rows: list[dict[str, Any]] = [
        {"instance_id": "odd", "messages": [ISSUE, {"role": "assistant", "content": "x", **one}]} for one in spoilt
    ]
    rows += [{**TRAJECTORY, "steps": [{"step_id": 1, "source": "agent", "message": "x", **one}]} for one in steps]
    return [*rows, {"instance_id": "odd", "messages": [ISSUE, "x"]}, {"instance_id": "odd", "messages": "[" * 5_000}]


def test_rows_of_an_odd_form_are_named_each_and_take_no_other_with_them(tmp_path: Path) -> None:
    odd = odd_rows()
    found, attempts, refused = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", OPENHANDS, *odd, SWE_AGENT))
    deep = next(number for number, row in enumerate(odd) if "[" * 200_000 in str(row))
    assert [one.task.id for one in attempts if one.task.id != "odd"] == ["owner__name-1", "owner__name-2"]
    assert len(refused) + found.attempts == len(odd) + 2
    assert sum(one.task.id == "odd" for one in attempts) <= 1, f"arguments that are no JSON may be told as they are, as those of row {deep}"


def test_an_odd_value_of_a_column_says_nothing(tmp_path: Path) -> None:
    odd = {"instance_id": float("nan"), "trajectory_id": ["a"], "model_patch": float("nan"), "exit_status": 3.5, "resolved": float("nan")}
    source = lines(tmp_path / "named.jsonl", {**odd, "messages": MINI["messages"]})
    _, (one,), refused = taken(tmp_path / "out", source)
    assert not refused
    assert (one.task.id, one.trajectory.id, one.trajectory.submission, one.broken) == ("named", "named", "", True)


def test_half_a_letter_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    row = {"instance_id": "t", "messages": json.dumps([ISSUE, {"role": "assistant", "content": "\ud800"}])}
    (tmp_path / "b.traj").write_text(json.dumps({"instance_id": "t", "messages": [ISSUE, {"role": "assistant", "content": "\ud800"}]}))
    _, attempts, refused = taken(tmp_path / "out", lines(tmp_path / "a.jsonl", row, OPENHANDS), str(tmp_path / "b.traj"))
    assert [one.task.id for one in attempts] == ["owner__name-1"]
    assert len(refused) == 2


def test_an_id_that_another_attempt_was_given_is_not_given_again(tmp_path: Path) -> None:
    rows = [{**OPENHANDS, "trajectory_id": name} for name in ("a", "a", "a#2", "a")]
    _, attempts, _ = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", *rows))
    assert len({one.trajectory.id for one in attempts}) == 4


def test_attempts_at_two_tasks_with_one_id_are_two(tmp_path: Path) -> None:
    rows = [{**OPENHANDS, "instance_id": name, "context": 1, "resolved": name == "a"} for name in ("a", "b")]
    _, attempts, _ = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", *rows))
    assert [(one.task.id, one.solved) for one in attempts] == [("a", True), ("b", False)]


def test_a_file_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    sources = [str(tmp_path / "bad.json"), str(tmp_path / "nowhere.jsonl"), lines(tmp_path / "rows.jsonl", OPENHANDS)]
    found, _, refused = taken(tmp_path / "out", *sources)
    assert (found.attempts, len(refused)) == (1, 2)


def test_a_folder_that_cannot_be_read_is_named_and_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "many" / "a").mkdir(parents=True)
    lines(tmp_path / "many" / "a" / "rows.jsonl", OPENHANDS)
    (tmp_path / "many" / "b").mkdir()
    monkeypatch.chdir(tmp_path / "many" / "b")
    for _ in range(20):  # a name that is longer than the system takes, whoever asks
        os.mkdir("x" * 250)
        os.chdir("x" * 250)
    found, _, refused = taken(tmp_path / "out", str(tmp_path / "many"))
    assert found.attempts == 1
    (said,) = refused
    assert "cannot be read (File name too long)" in said


def test_an_attempt_that_said_nothing_is_an_attempt(tmp_path: Path) -> None:
    row: dict[str, Any] = {"instance_id": "a", "trajectory_id": "1", "messages": [], "resolved": None, "exit_status": "infrastructure"}
    for source, out in ((lines(tmp_path / "rows.jsonl", row, OPENHANDS), "first"), (str(tmp_path / "told.parquet"), "again")):
        found, attempts, refused = taken(tmp_path / out, source)
        assert not refused
        assert (found.attempts, found.others) == (2, 0)
        assert [len(one.trajectory.turns) for one in attempts] == [0, 2]
        assert [one.broken for one in attempts] == [True, False]
        if out == "first":
            assert exported(Run.open(tmp_path / out), "hf-messages", Wanted(), tmp_path / "told.parquet", Refused()) == 2


def test_where_every_row_is_refused_each_reason_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a"\n{"b"\n')
    (tmp_path / "empty").mkdir()
    assert main(["import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "empty")]) == 2
    told = capsys.readouterr().err
    assert "line 1" in told
    assert "line 2" in told
    assert "there is no attempt" in told
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("format", ["atif", "hf-messages"])
def test_what_nobody_judged_is_unknown_in_an_export_too(format: str, tmp_path: Path) -> None:
    taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", MINI))
    exported(Run.open(tmp_path / "out"), format, Wanted(), tmp_path / "again.parquet", Refused())
    _, (one,), _ = taken(tmp_path / "back", str(tmp_path / "again.parquet"))
    assert one.broken


@pytest.mark.parametrize("name", ["../../../../../../escape/y", "/tmp/absolute/y", "..", "a/b", "x" * 400])
def test_no_name_of_a_task_leaves_the_folder_of_an_export(name: str, tmp_path: Path) -> None:
    taken(tmp_path / "in" / "out", lines(tmp_path / "rows.jsonl", {**OPENHANDS, "instance_id": name, "trajectory_id": name}))
    for format in ("swebench", "atif", "inspect"):
        place = tmp_path / "in" / format
        exported(Run.open(tmp_path / "in" / "out"), format, Wanted("evaluate"), place, Refused())
        assert sum(path.is_file() for path in place.rglob("*")) >= 1
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"out", "swebench", "atif", "inspect"}
    assert {path.name for path in tmp_path.iterdir()} == {"in", "rows.jsonl"}
    (patch,) = (tmp_path / "in" / "swebench").rglob("patch.diff")
    assert len(patch.relative_to(tmp_path / "in" / "swebench").parts) == 6


def test_a_trajectory_without_a_result_says_nothing_of_its_success(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(TRAJECTORY))
    found, (one,), _ = taken(tmp_path / "out", str(tmp_path / "one.json"))
    assert one.broken
    assert found.outcomes[one.task.id] == [None]
    assert Run.open(tmp_path / "out").results.reports()[0].faults == 1


def test_a_row_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    picture = {"instance_id": "picture", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}
    odd = {"instance_id": "odd", "messages": [{"role": "narrator", "content": "Once."}]}
    source = lines(tmp_path / "rows.jsonl", OPENHANDS, picture, odd, {"columns": "others"}, SWE_AGENT)
    with Path(source).open("a") as file:
        file.write("{nonsense\n")
    found, attempts, refused = taken(tmp_path / "out", source)
    assert [one.task.id for one in attempts] == ["owner__name-1", "owner__name-2"]
    assert found.others == 1
    assert [sentence.split("rows.jsonl ")[1][:6] for sentence in refused] == ["line 2", "line 3", "line 6"]


def test_where_no_attempt_is_found_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no attempt in it"):
        imported([lines(tmp_path / "rows.jsonl", {"columns": "others"})], tmp_path / "out", Refused())
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    assert main(["import", lines(tmp_path / "rows.jsonl", OPENHANDS), "--out", str(tmp_path / "out")]) == 2
    assert "--out" in capsys.readouterr().err
    assert (tmp_path / "out" / "mine").read_text() == "kept"


def test_attempts_without_names_and_with_the_same_one_are_told_apart(tmp_path: Path) -> None:
    unnamed = {key: value for key, value in OPENHANDS.items() if key != "trajectory_id"}
    source = lines(tmp_path / "rows.jsonl", unnamed, unnamed, OPENHANDS, OPENHANDS)
    _, attempts, _ = taken(tmp_path / "out", source)
    names = [one.trajectory.id for one in attempts]
    assert names == ["owner__name-1", "owner__name-1#2", "chatcmpl-1", "chatcmpl-1#2"]
    assert [shown(Run.open(tmp_path / "out"), name)["turns"][0]["tool"] for name in names] == ["execute_bash"] * 4


def test_attempts_at_one_task_have_one_statement_and_one_row_of_the_figures(tmp_path: Path) -> None:
    otherwise = [{**ISSUE, "content": "Told otherwise."}, *SAID[2:]]
    other = {**OPENHANDS, "trajectory_id": "other", "resolved": 0, "trajectory": otherwise}
    _, attempts, _ = taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", OPENHANDS, other))
    assert {one.task.instruction for one in attempts} == {ISSUE["content"]}
    (report,) = Run.open(tmp_path / "out").results.reports()
    assert (report.tasks, report.attempts, report.pass_at_1.mean) == (1, 2, 0.5)
    assert report.outcomes == {"owner__name-1": (True, False)}


def test_many_attempts_are_in_several_tables_and_the_first_of_them_can_be_asked_for(tmp_path: Path) -> None:
    rows = [{**OPENHANDS, "instance_id": f"task-{number}", "trajectory_id": f"t{number}"} for number in range(230)]
    found, attempts, _ = taken(tmp_path / "all", lines(tmp_path / "rows.jsonl", *rows))
    assert (found.attempts, len(attempts)) == (230, 230)
    run = Run.open(tmp_path / "all")
    assert len(run.rollouts.files()) == 3
    assert sum(listed(paths)["count"] for paths in chunks(run)) == 230
    assert taken(tmp_path / "some", str(tmp_path / "rows.jsonl"), most=105)[0].attempts == 105


def test_a_page_shows_them_and_says_nothing_of_what_could_be_run_again(tmp_path: Path) -> None:
    taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", OPENHANDS, SWE_AGENT))
    text = page(Run.open(tmp_path / "out"))
    assert "50.0 %" in text or "50 %" in text
    assert "can be run again" not in text


AGENTS = (["audit", "{}"], ["replay", "{}", "chatcmpl-1"], ["train", "--run", "{}", "--resume"], ["compare", "{}", "{}"])


@pytest.mark.parametrize("verb", AGENTS)
def test_what_needs_the_agent_that_made_them_is_refused_in_a_sentence(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", OPENHANDS))
    assert main([word.format(tmp_path / "out") for word in verb]) == 2
    assert "holds attempts that were imported" in capsys.readouterr().err


def test_an_evaluation_cannot_go_on_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", OPENHANDS))
    assert main(["evaluate", "--out", str(tmp_path / "out"), "--resume"]) == 2
    assert "holds attempts that were imported" in capsys.readouterr().err


def test_two_imports_are_compared_by_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    better = [{**OPENHANDS, "instance_id": f"task-{number}"} for number in range(8)]
    worse = [{**row, "resolved": 0} for row in better]
    taken(tmp_path / "a", lines(tmp_path / "a.jsonl", *worse), name="before")
    taken(tmp_path / "b", lines(tmp_path / "b.jsonl", *better), name="after")
    assert main(["evaluate", "--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "after solves 100.0 points more than before on the same 8 tasks" in capsys.readouterr().out


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
ANSWERS = TEXTS.map(str.strip)


@given(said=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), ANSWERS), max_size=12), system=st.none() | TEXTS.filter(bool))
def test_what_was_said_and_answered_is_what_the_turns_hold(said: list[tuple[Any, str]], system: str | None) -> None:
    stream = (*([Said("system", system)] if system is not None else []), *(Said(role, content) for role, content in said))
    told = Told("task", "attempt", (stream,), solved=False)
    made = rollout_of(told, task_of(told))
    assert [turn.action.text for turn in made.trajectory.turns] == [content for role, content in said if role == "assistant"]
    answers: list[list[str]] = [[]]
    for role, content in said:
        if role == "assistant":
            answers.append([])
        else:
            answers[-1].append(content)
    assert [turn.observation.content for turn in made.trajectory.turns] == ["\n".join(part) for part in answers[1:]]


@given(value=st.one_of(st.booleans(), st.integers(), st.floats(), st.text(), st.none(), st.lists(st.integers())))
def test_whether_it_is_solved_is_told_or_unknown(value: object) -> None:
    assert truth(value) in (True, False, None)
    if isinstance(value, int | float):
        assert truth(value) is (True if value == 1 else False if 0 <= value < 1 else None)


@pytest.mark.parametrize(
    ("ended", "submission", "stop"),
    [
        ("submitted (exit_cost)", "diff", "submitted"),
        ("exit_cost", "", "turn limit"),
        ("turn limit", "diff", "turn limit"),
        ("RepeatedFormatError", "", "format errors"),
        ("AgentStuckInLoopError", "", "repeats"),
        ("CommandTimeout", "", "time limit"),
        ("RuntimeError", "", "abstained"),
        ("unexpected information", "", "abstained"),
        ("exit_context", "diff", "submitted"),
        ("", "diff", "submitted"),
        ("", "", "abstained"),
        ("something new", "", "abstained"),
    ],
)
def test_an_end_in_others_words_is_one_of_ours(ended: str, submission: str, stop: str) -> None:
    assert stop_of(Told("task", "attempt", (), solved=False, submission=submission, ended=ended)) == stop


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Done.", Call("message", "")),
        ("```python\nx\n```\nthen\n```bash\ngit diff\nls\n```", Call("shell", "git diff\nls")),
        ('<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>', Call("bash", "ls")),
        ("<function=finish></function>", Call("finish", "{}")),
        ("```bash\nnever closed", Call("message", "")),
    ],
)
def test_a_call_in_a_text_is_found(text: str, call: Call) -> None:
    assert call_of(Said("assistant", text)) == call
    assert call_of(Said("assistant", text), native=True) == Call("message", "")


LONG = ("```py\n", "<function=a>", "<tool_call>", "<function=a><parameter=b>")


@pytest.mark.parametrize("text", [part * 20_000 for part in LONG], ids=LONG)
def test_a_text_of_many_beginnings_is_read_once(text: str) -> None:
    assert call_of(Said("assistant", text)).tool in ("message", "shell")


def test_messages_that_are_exported_again_are_those_that_were_imported(tmp_path: Path) -> None:
    taken(tmp_path / "out", lines(tmp_path / "rows.jsonl", SWE_AGENT, MINI))
    refused = Refused()
    told = [
        [(message.role, message.content) for exchange in one.exchanges for message in exchange.messages]
        for one in conversations(Run.open(tmp_path / "out"), "*", refused)
    ]
    assert not refused.errors
    assert told == [[("system", "SETTING: a terminal."), ("user", ISSUE["content"])], [("user", ISSUE["content"])]]
