"""Environments for TRL: calls, rewards and rows; and three steps of GRPO with TRL itself, which `make guests` installs."""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from tests.guests.environments import told
from tests.guests.shop import REPAIR, shop

from patchgrad.errors import ConfigError
from patchgrad.guests.sources import Generated, of_set
from patchgrad.guests.trl import RepairEnvironment, Repairs
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.tasks.sets import Member, save
from patchgrad.values import Task, Trajectory, Verdict

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
FEW = SandboxChoice(concurrency=3)


def few_characters(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    return verdict.resolved * 100 - len(trajectory.submission) / 1000


@pytest.fixture(scope="module")
def repairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repairs]:
    folder = tmp_path_factory.mktemp("repairs")

    def source(split: Literal["train", "held_out"], count: int, seed: int) -> Sequence[Task]:
        return [shop(folder, f"shop-{number}") for number in range(count)]

    made = Repairs(source, count=2, sandbox=FEW)
    yield made
    made.close()


@pytest.fixture(scope="module")
def environment(repairs: Repairs) -> RepairEnvironment:
    return repairs()


def test_what_was_repaired_and_submitted_has_the_reward_and_nothing_else_has(environment: RepairEnvironment) -> None:
    assert environment.reset(task="shop-0", prompt=[], environment="patchgrad") is None
    assert "2:    return sum(prices) - 1" in environment.open("shop.py")
    assert environment.shell(REPAIR)
    assert environment.submit() == "Submitted."
    assert environment.get_reward() == 1.0
    assert environment.shell("ls") == "The attempt is over."
    environment.reset(task="shop-0")
    assert "- 1" in environment.shell("cat shop.py"), "the same environment has another sandbox"
    environment.shell(REPAIR)
    assert environment.get_reward() == 0.0, "it was repaired, and not submitted"
    environment.reset(task="shop-1")
    environment.submit()
    assert environment.get_reward() == 0.0


def test_each_tool_does_what_it_says_with_quotes_and_lines_as_they_are(environment: RepairEnvironment) -> None:
    environment.reset(task="shop-0")
    assert "return sum" in environment.search_file("sum(prices)", "shop.py")
    odd = 'it\'s "a" $HOME `b` && \\n <<EOF'
    environment.replace("shop.py", "sum(prices) - 1", odd)
    assert environment.shell("cat shop.py").splitlines()[1] == f"    return {odd}"
    environment.edit("shop.py", 2, 2, "    whole = sum(prices)\n    return whole")
    assert environment.shell("cat shop.py") == "def total(prices):\n    whole = sum(prices)\n    return whole"
    environment.create("notes of mine.txt")
    environment.edit("notes of mine.txt", 1, 1, odd)
    assert environment.shell("cat notes*") == odd
    environment.edit("shop.py", 2, 2, "")
    assert "whole = " not in environment.shell("cat shop.py")
    assert "does not occur" in environment.replace("shop.py", "nothing", "x")
    assert environment.shell("cd /tmp && x=3") is not None
    assert environment.shell("echo $x in $PWD") == "3 in /tmp"


def test_environments_are_called_from_threads_and_beside_a_running_loop(repairs: Repairs, environment: RepairEnvironment) -> None:
    other, found = repairs(), dict[str, float | None]()

    def work(name: str, which: RepairEnvironment) -> None:
        which.reset(task=name)
        which.shell(REPAIR)
        which.submit()
        found[name] = which.get_reward()

    threads = [threading.Thread(target=work, args=pair) for pair in (("shop-0", environment), ("shop-1", other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"shop-0": 1.0, "shop-1": 1.0}

    async def within() -> None:
        work("shop-1", other)

    found.clear()
    asyncio.run(within())
    assert found == {"shop-1": 1.0}


def test_rows_name_their_task_and_environment_and_hold_nothing_hidden(repairs: Repairs) -> None:
    rows = repairs.rows()
    assert [row["task"] for row in rows] == ["shop-0", "shop-1"]
    assert {row["environment"] for row in rows} == {repairs.name}
    assert "one too low" in rows[0]["prompt"][0]["content"]
    assert "test_total" not in json.dumps(rows)


def test_public_methods_are_the_tools_and_each_is_described(environment: RepairEnvironment) -> None:
    """As TRL lists them, and as transformers reads them."""
    utils = pytest.importorskip("transformers.utils", reason="transformers is not installed")
    listed = {name for name, _ in inspect.getmembers(RepairEnvironment, inspect.isfunction) if not name.startswith("_")}
    tools = listed - {"reset", "get_reward"}
    assert tools == {"shell", "open", "search_file", "create", "edit", "replace", "submit"}
    for name in tools:
        schema = utils.get_json_schema(getattr(environment, name))["function"]
        assert schema["name"] == name
        for part in schema["parameters"]["properties"].values():
            assert part["description"]


def test_what_cannot_work_is_said(repairs: Repairs, environment: RepairEnvironment) -> None:
    with pytest.raises(ConfigError, match="'another', which is none"):
        environment.reset(task="another")
    repairs()
    with pytest.raises(ConfigError, match="more than 3 environments at once"):
        repairs()
    with pytest.raises(ConfigError, match="no tasks of the split held_out"):
        Repairs(lambda split, count, seed: [], split="held_out")


def test_a_reward_of_the_users_own_and_tasks_of_a_set_or_generated(tmp_path: Path) -> None:
    save(tmp_path / "set", [Member(one := shop(tmp_path / "set", "one"), {"report": one.instruction}, "")])
    made = Repairs(of_set(tmp_path / "set"), reward=few_characters, sandbox=FEW)
    environment = made()
    environment.reset(task="one")
    environment.shell(REPAIR)
    environment.submit()
    found = environment.get_reward()
    assert found is not None
    assert 99 < found < 100
    environment.reset(task="one")
    environment.shell("echo x > new.py")
    environment.submit()
    made.close()  # while what was submitted is graded
    made.close()
    tasks = [Generated(tmp_path / "generated")(split, 2, 0) for split in ("train", "held_out", "train")]
    assert [task.id for task in tasks[0]] == [task.id for task in tasks[2]]
    assert not {task.id for task in tasks[0]} & {task.id for task in tasks[1]}


@pytest.mark.slow
def test_trl_takes_three_steps_of_grpo_with_them(tmp_path: Path) -> None:
    silent = {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    found = told("trl", Path(__file__).with_name("with_trl.py"), str(tmp_path), **silent)
    assert found["steps"] == 3
    assert len(found["rewards"]) == 3
    assert found["calls"] > 0, "the model called no tool"
    assert max(found["rewards"]) > 0, "no attempt was rewarded"
    assert found["changed"], "the weights are what they were"
