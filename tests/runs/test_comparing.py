"""Two runs are held against each other: the first turn at which they part, and what differs there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.runs.test_audit import TASK, folder

from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.contracts import Capabilities
from patchgrad.recipes import laptop
from patchgrad.runs.inspection.comparing import compare, parted
from patchgrad.runs.sandboxed import keep_sandbox
from patchgrad.store import Run
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.values import (
    Action,
    Call,
    Malformed,
    Note,
    Observation,
    Reward,
    Rollout,
    Segment,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
    root_address,
)

Change = Callable[[Turn], Turn]


def attempt(name: str, changes: dict[int, Change] | None = None, turns: int = 3, status: str = "passed") -> Rollout:
    """An attempt of so many turns, some of which (by their number) are changed before others follow them."""
    chain: list[Turn] = []
    for number in range(1, turns + 1):
        action = Action(ids([7, 8, number]), floats([-0.5, -0.25, -1.0]), 0, f"act {number}", "stop")
        parent = chain[-1].address if chain else root_address(TASK, name)
        answer = Observation(f"line one\ntook 0.{number}s\n", ToolState(), 0)
        turn = Turn(ids([1, number]), action, Call("shell", f"make {number}"), answer, f"state {number}", parent)
        change = (changes or {}).get(number)
        chain.append(change(turn) if change else turn)
    outcome = TestOutcome("a", "fail_to_pass", status)  # type: ignore[arg-type]
    verdict = Verdict(TASK.id, "", ("ran",), (outcome,))
    return Rollout(TASK, Trajectory(name, TASK.id, (Segment(tuple(chain)),), "submitted", ""), verdict, Reward(1.0, {}))


def answers(content: str) -> Change:
    return lambda turn: replace(turn, observation=replace(turn.observation, content=content))


def acts(tokens: list[int], logprobs: list[float], text: str) -> Change:
    return lambda turn: replace(turn, action=replace(turn.action, token_ids=ids(tokens), logprobs=floats(logprobs), text=text))


def runs(path: Path, left: Rollout, right: Rollout) -> tuple[Path, Path]:
    same = attempt("stage1/0/0/0")
    return folder(path / "left", [[same, left]]), folder(path / "right", [[same, right]])


@pytest.mark.parametrize(
    ("changes", "turn", "cause"),
    [
        ({2: lambda turn: replace(turn, context=ids([1, 9]))}, 2, "the prompt has other tokens"),
        ({2: acts([7, 9, 2], [-0.5, -0.3, -1.0], "another")}, 2, "the 1 that are the same have the same log-probabilities"),
        ({2: acts([7, 8, 9], [-0.5, -0.26, -1.0], "another")}, 2, "the 2 that are the same have log-probabilities up to 1.0e-02 apart"),
        ({2: acts([9, 8, 2], [-0.5, -0.25, -1.0], "another")}, 2, "another first token"),
        ({3: acts([7, 8, 3], [-0.5, -0.25, -1.5], "act 3")}, 3, "the same tokens were drawn, with log-probabilities up to 5.0e-01 apart"),
        ({1: lambda turn: replace(turn, call=Malformed("no command", "Say one."))}, 1, "read as another call"),
        ({1: answers("line two\ntook 0.1s\n")}, 1, "otherwise: 'line one' and 'line two'"),
        ({1: answers("line one\ntook 0.7s\n")}, 1, "but for what changes by itself"),
        ({1: answers("line one\ntook 0.7s\nand more\n")}, 1, "one goes on where the other ends"),
        ({1: lambda turn: replace(turn, observation=replace(turn.observation, exit_code=1))}, 1, "ended with exit code 0 and 1"),
        ({2: lambda turn: replace(turn, state="other"), 1: lambda turn: replace(turn, loose=("sleep 9",))}, 2, "left other files"),
        ({2: lambda turn: replace(turn, shell="X=1\n")}, 2, "left another shell"),
        ({1: answers("line two"), 2: acts([9], [-0.1], "another")}, 1, "otherwise"),
    ],
)
def test_runs_part_at_the_first_thing_that_differs(changes: dict[int, Change], turn: int, cause: str, tmp_path: Path) -> None:
    left, right = runs(tmp_path, attempt("stage1/0/0/1"), attempt("stage1/0/0/1", changes))
    found = compare(Run.open(left), Run.open(right))
    assert [(table.name, table.attempts, table.same) for table in found.tables] == [("stage1-0", 2, 1)]
    assert found.parting is not None
    name, parting = found.parting
    assert (name, parting.attempt, parting.turn) == ("stage1-0", "stage1/0/0/1", turn)
    assert cause in parting.cause


@pytest.mark.parametrize(
    ("other", "turn", "cause"),
    [
        (attempt("stage1/0/0/1", turns=2), 2, "one of them ended"),
        (attempt("stage1/0/0/1", status="failed"), 3, "judged otherwise"),
        (replace(attempt("stage1/0/0/1"), reward=Reward(0.5, {})), 3, "another reward"),
        (attempt("stage1/0/0/2"), 0, "only one of the runs has this attempt"),
    ],
)
def test_attempts_part_after_their_turns_too(other: Rollout, turn: int, cause: str, tmp_path: Path) -> None:
    left, right = runs(tmp_path, attempt("stage1/0/0/1"), other)
    found = compare(Run.open(left), Run.open(right))
    assert found.parting is not None
    assert (found.parting[1].turn, cause in found.parting[1].cause) == (turn, True)


def test_what_differs_after_all_turns_comes_after_what_differs_in_one(tmp_path: Path) -> None:
    judged, answered = attempt("stage1/0/0/1", status="failed"), attempt("stage1/0/0/2", {2: answers("line two")})
    left = folder(tmp_path / "left", [[attempt("stage1/0/0/1"), attempt("stage1/0/0/2")]])
    found = compare(Run.open(left), Run.open(folder(tmp_path / "right", [[judged, answered]])))
    assert found.parting is not None
    assert (found.parting[1].attempt, found.parting[1].turn) == ("stage1/0/0/2", 2)


def test_a_damaged_attempt_is_told_and_the_others_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = runs(tmp_path, attempt("stage1/0/0/1"), attempt("stage1/0/0/1"))
    journal = next((left / "journal").glob("*.jsonl"))
    journal.write_text(journal.read_text().replace("act 2", "act 9", 1))
    assert main(["compare", str(left), str(right)]) == 1
    page = capsys.readouterr().out
    assert "stage1/0/0/0 cannot be read" in page
    assert "All attempts" not in page
    assert [(table.attempts, table.same) for table in compare(Run.open(left), Run.open(right)).tables] == [(1, 1)]


def test_attempts_at_other_tasks_are_not_compared_further() -> None:
    left = attempt("stage1/0/0/1")
    right = replace(attempt("stage1/0/0/1", {1: answers("line two")}), task=replace(TASK, instruction="fix that"))
    found = parted(left, right)
    assert found is not None
    assert (found.turn, found.cause) == (0, "its tasks differ")
    assert parted(left, left) is None


def test_the_same_runs_are_the_same_and_so_are_one_s_first_iterations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollouts = [[attempt(f"stage1/{number}/0/0")] for number in range(3)]
    left, right = folder(tmp_path / "left", rollouts), folder(tmp_path / "right", rollouts[:2])
    assert main(["compare", str(left), str(right)]) == 0
    page = capsys.readouterr().out
    assert "Only one of them has stage1-2." in page
    assert "All attempts that both have are the same" in page


class Equipped(LocalSandboxes):
    """Sandboxes with these programs."""

    def __init__(self, programs: dict[str, str]) -> None:
        super().__init__({})
        self._programs = programs

    def probe(self) -> Capabilities:
        return replace(super().probe(), programs=self._programs)


class Notes:
    """A tracker that keeps notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def event(self, event: object) -> None:
        self.texts += [event.text] if isinstance(event, Note) else []


def test_programs_that_are_others_are_told_when_a_run_goes_on_and_when_runs_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right, notes = tmp_path / "left", tmp_path / "right", Notes()
    for path, told in ((left, {"git": "1", "ls": "1"}), (right, {"git": "2", "ls": "1"})):
        with Run.create(path, dumps(laptop())) as run:
            for _ in range(2):
                keep_sandbox(run, Equipped(told), notes)
    assert notes.texts == [], "they began so"
    assert main(["compare", str(left), str(right)]) == 0
    assert "In the sandboxes of the second, git differs." in capsys.readouterr().out
    with Run.resume(left) as run:
        keep_sandbox(run, Equipped({"git": "2"}), notes)
    assert notes.texts == [
        "Sandboxes have other programs than when this run began: git differs; ls is missing. Their answers may differ from here on."
    ]


def test_other_weights_and_other_recipes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = runs(tmp_path, attempt("stage1/0/0/1"), attempt("stage1/0/0/1"))
    for run, weights in ((left, [0.0, 1.0]), (right, [0.0, 2.0])):
        (run / "checkpoints" / "stage1-0").mkdir(parents=True)
        (run / "checkpoints" / "stage1-0" / "model.safetensors").write_bytes(np.array(weights).tobytes())
    recipe = right / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("seed = 0", "seed = 1", 1))
    assert main(["compare", str(left), str(right)]) == 1
    page = capsys.readouterr().out
    assert "seed is 0 in the first and 1 in the second." in page
    assert "Weights that are others: stage1-0." in page
    assert main(["compare", str(left), str(right), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["same"], told["recipes"], told["weights"]) == (False, [["seed", "0", "1"]], [["stage1-0", False]])
