"""An attempt is taken again, command by command: what is equal, what only looks different, what is different, and a shell in between."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rollouts.test_loop import FILES, TASK, command

from patchgrad.cli import main
from patchgrad.config import dumps, override
from patchgrad.grading import Grader
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.recipes import laptop
from patchgrad.rollouts.attempts import NEUTRAL
from patchgrad.rollouts.loop import rollout
from patchgrad.runs.build.harness import harness, sandboxes
from patchgrad.runs.inspection.replay import RULES, compared, normalised
from patchgrad.store import Run
from patchgrad.tasks.archive import pack, store
from patchgrad.values import Attempt, Budget, Observation, Reward, Rollout, Task, ToolState, Verdict

WORDS = (
    "open shop/cart.py",
    """replace "total = x" "total += x" """,
    "mkdir -p new; cd new; pwd",
    "python -c 'import time; print(\"1 passed in %.12fs\" % (time.time() % 1))'",
    "python -c 'import time; print(\"answer\", time.time_ns())'",
    "python -c 'import time; print(time.time_ns())' > changing",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one attempt: its answers are the same but the fourth, which looks different, and the fifth, which is; then a file is."""
    path = tmp_path_factory.mktemp("replayed")
    task = Task("t", TASK.instruction, store(path, pack({name: text.encode() for name, text in FILES.items()})), TASK.checks)
    recipe = override(laptop(), {"sandbox.concurrency": "2"})
    asyncio.run(_taken(path / "run", task, dumps(recipe)))
    return path / "run"


async def _taken(path: Path, task: Task, recipe: str) -> None:
    choice = laptop().sandbox
    boxes, policy = sandboxes(choice), ScriptedPolicy([command(word) for word in WORDS])
    with Run.create(path, recipe) as made:
        made.tasks.add([task])
        try:
            around = harness(laptop().agent, choice, Grader(boxes), made.journal, lambda _: None)
            attempt = Attempt(task, "stage1/0/0/0", 0, Budget(len(WORDS), 100_000), NEUTRAL)
            done = await rollout(replace(around, cache=None), policy, attempt)
        finally:
            await boxes.close()
        made.rollouts.write("stage1", 0, [Rollout(task, done, Verdict(task.id, "", ("ran",), ()), Reward(0.0, {}))])


def test_each_answer_is_compared_and_so_are_the_files_after_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run), "stage1/0/0/0", "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["answer"] for one in told] == ["equal", "equal", "equal", "alike", "different", "equal"]
    assert [one["same_state"] for one in told] == [True, True, True, True, True, False]
    assert main(["replay", str(run), "stage1/0/0/0"]) == 1
    page = capsys.readouterr().out
    assert "-answer 1" in page, "what it said then"
    assert "+answer 1" in page, "and what it says now"
    assert "and the files are others" in page
    assert "4 of 6 turns are as they were." in page


def test_only_the_first_turns_are_taken_where_a_number_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run), "stage1/0/0/0", "--turn", "4"]) == 0
    assert "4 of 4 turns are as they were." in capsys.readouterr().out
    assert main(["replay", str(run), "stage1/0/0/0", "--turn", "7"]) == 2
    assert "has 6 turns" in capsys.readouterr().err


def test_a_shell_opens_where_the_agent_stood(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for turns, expected in (("0", ["/testbed", "total = x"]), ("2", ["/testbed", "total += x"]), ("3", ["/testbed/new", "total += x"])):
        monkeypatch.setattr("sys.stdin", io.StringIO("pwd\ntail -1 /testbed/shop/cart.py\n"))
        assert main(["replay", str(run), "stage1/0/0/0", "--turn", turns, "--shell"]) == 0
        assert capsys.readouterr().out.splitlines() == expected


def test_an_attempt_that_is_not_there_is_named_with_some_that_are(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run), "stage1/0/0/9"]) == 2
    assert "stage1/0/0/0" in capsys.readouterr().err


CHANGES = (
    ("<m.A object at 0x7f1c2a3b4c5d>", "<m.A object at 0x7fffdeadbeef>"),
    ("3 passed in 0.12s", "3 passed in 1.31 seconds"),
    ("2026-11-24T10:00:00Z", "2027-01-02 03:04:05.678+01:00"),
    ("Date:   Tue Nov 24 10:00:00 2026", "Date:   Fri Jan 01 00:00:01 2027"),
    ("-rw-r--r-- 1 a a 5 Nov 24 10:00 x", "-rw-r--r-- 1 a a 5 Jan  1 00:01 x"),
    ("pid 4711", "pid 12"),
    ("/tmp/pytest-of-a/pytest-0/x", "/tmp/pytest-of-b/pytest-31/y"),
    ("[master 1a2b3c4] fix", "[master 9f8e7d6] fix"),
)


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_what_changes_by_itself_is_alike(before: str, now: str) -> None:
    seen = [Observation(text, ToolState(), 0) for text in (before, now)]
    assert compared(*seen) == "alike"
    assert compared(seen[0], Observation(now, ToolState(), 1)) == "different", "an exit code never changes by itself"
    assert compared(seen[0], Observation(f"{now} more", ToolState(), 0)) == "different"


def test_numbers_that_mean_something_stay() -> None:
    for text in ("assert 3 == 4", "line 12, in total", "3 failed, 4 passed", "1234567 items"):
        assert normalised(text) == text
    assert len(CHANGES) == len(RULES), "each rule has its example"
