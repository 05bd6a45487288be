"""Codex, Claude Code, OpenCode and aider, unchanged, in a sandbox, as the guide's files start them. `make agents` installs them."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.agents.gateway.test_inside import BUDGET, read, worked
from tests.guests.shop import REPAIR, shop

from patchgrad.agents.gateway import CommandAgent
from patchgrad.cli import main
from patchgrad.values import Task

FOLDER = Path(os.environ.get("PATCHGRAD_AGENTS", str(Path(sys.prefix) / "agents")))
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "agents"
FILES = sorted(path.stem for path in GUIDE.glob("*.toml"))
EDIT = "shop.py\n```python\n<<<<<<< SEARCH\n    return sum(prices) - 1\n=======\n    return sum(prices)\n>>>>>>> REPLACE\n```\n"


def call(name: str, **arguments: Any) -> str:
    return f"So.\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


SAYS = {
    "codex": [call("exec_command", cmd="cat shop.py"), call("exec_command", cmd=REPAIR), "Done."],
    "claude_code": [call("Bash", command="cat shop.py", description="look"), call("Bash", command=REPAIR, description="mend"), "Done."],
    "opencode": [call("bash", command="cat shop.py", description="look"), call("bash", command=REPAIR, description="mend"), "Done."],
    "aider": [f"Add `shop.py` to the chat.\n\n{EDIT}", "Done.", "Done."],
}


def agent(name: str) -> CommandAgent:
    """The agent of a file of the guide, where it is installed."""
    told = json.dumps(tomllib.loads((GUIDE / f"{name}.toml").read_text())["agent"]["scaffold"])
    options = json.loads(told.replace("/opt/agents", str(FOLDER)))
    needed = [word for word in (*options["argv"], *options["environment"].values()) if word.startswith(str(FOLDER))]
    if not all(Path(word).exists() for word in needed):
        pytest.skip(f"{name} is not installed in PATCHGRAD_AGENTS, nor by make agents")
    return CommandAgent(**{key: value for key, value in options.items() if key != "name"})


@pytest.fixture
def task(tmp_path: Path) -> Task:
    made = shop(tmp_path)
    return replace(made, limits=replace(made.limits, command_seconds=60.0))


@pytest.mark.slow  # by what has to be installed
@pytest.mark.parametrize("name", FILES)
def test_it_mends_a_task_and_its_stream_is_one(task: Task, name: str) -> None:
    script = SAYS[name]
    asked: list[str] = []

    def says(session: str, number: int) -> str:
        asked.append(session)
        turn = sum("#aside" not in one for one in asked) - 1
        return "A title" if "#aside" in session else script[min(turn, len(script) - 1)]

    done = worked(agent(name), task, says, BUDGET, [str(FOLDER)])
    assert done.fault is None
    assert done.trajectory.stop == "submitted"
    assert "+    return sum(prices)\n" in done.trajectory.submission
    assert task.instruction in read(done.trajectory.turns[0])
    assert len(done.trajectory.segments) == 1


@pytest.mark.parametrize("name", FILES)
def test_the_file_of_the_guide_is_a_recipe(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(GUIDE / f"{name}.toml"), "--print", "full"]) == 0
    assert 'name = "command"' in capsys.readouterr().out
