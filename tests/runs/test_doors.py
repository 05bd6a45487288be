"""The doors for Python, files and command lines: a run with a part of the user's begins, is resumed, and refuses changed code."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import patchgrad as pg
from patchgrad.cli import main
from patchgrad.contracts import Tracker
from patchgrad.recipes import Recipe, tiny
from patchgrad.runs import api, train
from patchgrad.runs.components import Registry
from patchgrad.runs.components.code import keep_code
from patchgrad.runs.event_loop import run_to_end


def small(task: pg.Task, trajectory: pg.Trajectory, verdict: pg.Verdict) -> float:
    """A solved attempt is worth more the smaller its patch is."""
    return verdict.resolved / (1 + trajectory.submission.count("\n") / 100)


def large(task: pg.Task, trajectory: pg.Trajectory, verdict: pg.Verdict) -> float:
    """The other way round."""
    return verdict.resolved * trajectory.submission.count("\n")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """Runs that only begin: their parts are looked at, their code is kept, and nothing is trained."""
    seen: list[Recipe] = []

    def take(recipe: Recipe, run: pg.Run, tracker: Tracker, registry: Registry, cluster: str) -> None:
        keep_code(recipe, run, registry)
        train._try_parts(recipe, registry)
        seen.append(recipe)

    monkeypatch.setattr(train, "train", take)
    return seen


def test_a_recipe_by_name_or_file_with_some_keys_set(tmp_path: Path) -> None:
    assert pg.recipe("tiny") == tiny()
    made = pg.recipe(
        "tiny", seed=3, changes={"stages.0.limits.turns": 5, "sandbox.cache": False, "rft.cap": None, "tasks.functions": (1, 2)}
    )
    assert (made.seed, made.stages[0].limits.turns, made.sandbox.cache, made.rft.cap, made.tasks.functions) == (3, 5, False, None, (1, 2))
    (tmp_path / "mine.toml").write_text('preset = "tiny"\nseed = 4\n')
    assert pg.recipe(tmp_path / "mine.toml").seed == 4
    with pytest.raises(pg.ConfigError, match="no recipe tinny"):
        pg.recipe("tinny")
    with pytest.raises(pg.ConfigError, match="cannot be read: No such file"):
        pg.recipe("not_there.toml")


def test_a_run_says_what_code_it_is_made_with_and_minds_a_change(begun: list[Recipe], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = pg.train(pg.recipe("tiny"), reward=small, run=folder, quiet=True)
    assert begun[-1].reward.name == "tests.runs.test_doors:small"
    assert json.loads((folder / "run.json").read_text())["code"]["reward"]["name"] == "tests.runs.test_doors:small"
    assert run.table() == f"{folder} has no evaluation yet."
    with pytest.raises(pg.StoreError, match="holds a run already"):
        pg.train(pg.recipe("tiny"), reward=small, run=folder, quiet=True)
    with pytest.raises(pg.ConfigError, match=r"began with another recipe \(reward\)"):
        pg.train(pg.recipe("tiny"), reward=large, run=folder, quiet=True, resume=True)
    pg.train(pg.recipe("tiny"), reward=small, run=folder, quiet=True, resume=True)


def test_a_function_of_a_notebook_that_changed_is_told_of(begun: list[Recipe], tmp_path: Path) -> None:
    def cell(text: str) -> Any:
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, "<cell>", "exec"), space)
        return space["small"]

    folder, recipe = tmp_path / "run", pg.recipe("tiny")
    one, other = (cell(f"def small(task, trajectory, verdict):\n    return {worth}") for worth in (1.5, 2.5))
    pg.train(recipe, reward=one, run=folder, quiet=True)
    with pytest.raises(pg.ConfigError, match=r"The code of reward \(__main__:small\) has changed .*accept_changed_code=True"):
        pg.train(recipe, reward=other, run=folder, quiet=True, resume=True)
    pg.train(recipe, reward=other, run=folder, quiet=True, resume=True, accept_changed_code=True)
    pg.train(recipe, reward=other, run=folder, quiet=True, resume=True)
    assert main(["train", "--run", str(folder), "--resume", "--json"]) == 2, "a command line does not have the function"


def test_a_file_names_a_function_beside_it(begun: list[Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine_door.py").write_text("def small(task, trajectory, verdict):\n    return 1.0\n")
    (tmp_path / "mine.toml").write_text('preset = "tiny"\nreward = "mine_door:small"\n')
    folder = str(tmp_path / "run")
    assert main(["train", str(tmp_path / "mine.toml"), "--run", folder, "--json"]) == 0
    (tmp_path / "mine_door.py").write_text("def small(task, trajectory, verdict):\n    return 2.0\n")
    assert main(["train", "--run", folder, "--resume", "--json"]) == 2
    assert main(["train", "--run", folder, "--resume", "--json", "--accept-changed-code"]) == 0
    assert main(["train", "--run", folder, "--resume", "--json"]) == 0


def test_a_run_that_cannot_begin_leaves_no_folder(begun: list[Recipe], tmp_path: Path) -> None:
    with pytest.raises(pg.ComponentError, match="The reward <lambda> takes"):
        pg.train("tiny", reward=lambda task: 1.0, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_it_can_be_called_where_a_loop_is_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a notebook: what a run awaits gets a loop of its own, in a thread of its own."""
    where: list[int] = []

    async def phases() -> str:
        await asyncio.sleep(0)
        where.append(threading.get_ident())
        return "done"

    def take(*_: object, **__: object) -> None:
        assert run_to_end(phases) == "done"

    monkeypatch.setattr(api, "train", take)

    async def cell() -> pg.Run:
        return pg.train("tiny", run=tmp_path / "inside", quiet=True)

    assert asyncio.run(cell()).folder == tmp_path / "inside"
    pg.train("tiny", run=tmp_path / "outside", quiet=True)
    assert where[0] != threading.get_ident() == where[1]


def test_what_fails_in_the_other_thread_is_raised_here() -> None:
    async def broken() -> None:
        raise pg.ConfigError("no")

    async def cell() -> None:
        run_to_end(broken)

    with pytest.raises(pg.ConfigError, match="no"):
        asyncio.run(cell())


def test_an_interrupt_ends_what_runs_in_the_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")

    def interrupted(self: object, timeout: float | None = None) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def cell() -> None:
        monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
        run_to_end(long)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    assert ended == ["cleaned up"]
