"""Our tasks in Harbor, which `make guests` installs: it reads them and grades attempts as we do. Its rewards are read as it reads them.

Harbor runs them in a sandbox of bubblewrap (harbor_sandbox.py), because images come from a registry. Agents, trial, verifier and the
reading of rewards are Harbor's.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.grading.test_harbor_reward import NONE, NUMBERS, READ
from tests.guests.environments import told
from tests.guests.shop import BUGGY, shop

from patchgrad.cli import main
from patchgrad.grading import grade
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.tasks.sets import Member, save
from patchgrad.testing import a_repository

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")]
REPAIR = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n def total(prices):\n-    return sum(prices) - 1\n+    return sum(prices)\n"
BUG = REPAIR.replace("-    return sum(prices) - 1\n+    return sum(prices)\n", "-    return sum(prices)\n+    return sum(prices) - 1\n")
FORGERY = "--- /dev/null\n+++ b/test_shop.py\n@@ -0,0 +1 @@\n+def test_total(): pass\n"
REWARDS = {f"{number:02d}": case for number, case in enumerate([*((file, text) for file, text, _ in NUMBERS), *NONE])}


def members(folder: Path) -> list[Member]:
    """One whose archive has the bug; one whose bug is planted, whose set-up makes a module, and whose statement is a quoted one."""
    plain = shop(folder, "plain")
    fixed = {"shop.py": BUGGY.replace(" - 1", "").replace("def", "import made\n\n\ndef")}
    repository = replace(a_repository(folder, fixed), patch=BUG.replace("@@ -1,2 +1,2 @@", "@@ -4,2 +4,2 @@"))
    planted = replace(
        plain, id="planted: \u00fc/1", instruction='The "total" is\n\ttoo low.\n', repository=repository, setup=("echo > made.py",)
    )
    repairs = (REPAIR, REPAIR.replace("@@ -1,2 +1,2 @@", "@@ -4,2 +4,2 @@"))
    return [Member(task, {"report": task.instruction}, repair) for task, repair in zip((plain, planted), repairs, strict=True)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Member]]:
    folder = tmp_path_factory.mktemp("harbor")
    made = members(folder / "set")
    save(folder / "set", made)
    assert main(["tasks", "export", str(folder / "set"), str(folder / "tasks"), "--format", "harbor"]) == 0
    return folder, made


@pytest.fixture(scope="module")
def found(ours: tuple[Path, list[Member]]) -> dict[str, Any]:
    """What Harbor says of them, and of tasks of others whose tests leave each of the rewards."""
    folder, _ = ours
    for name, (file, text) in REWARDS.items():
        task = folder / "rewards" / name
        for path, content in {
            "task.toml": 'version = "1.0"\n',
            "instruction.md": "Do it.\n",
            "environment/Dockerfile": "FROM scratch\n",
            "tests/left": text,
            "tests/test.sh": f"cp /tests/left /logs/verifier/{file}\n",
        }.items():
            (task / path).parent.mkdir(parents=True, exist_ok=True)
            (task / path).write_text(content)
    script = Path(__file__).with_name("with_harbor.py")
    said: dict[str, Any] = told("harbor", script, str(folder), sys.executable, HOME=str(folder), HARBOR_TELEMETRY="off")
    return said


def test_harbor_reads_a_task_as_it_was_written(found: dict[str, Any], ours: tuple[Path, list[Member]]) -> None:
    _, made = ours
    assert set(found["read"]) == {"plain", "planted-1"}
    for one, member in zip((found["read"]["plain"], found["read"]["planted-1"]), made, strict=True):
        assert one["valid"]
        assert one["instruction"] == member.task.instruction
        assert one["network"] == "no-network"
        assert one["seconds"] > member.task.limits.test_seconds
    assert [one["name"] for one in found["read"].values()] == ["patchgrad/plain", "patchgrad/planted-1"]


def test_harbors_linter_finds_nothing_but_what_is_meant(found: dict[str, Any]) -> None:
    """The image is named by its tag, the agent is root, and tests run in the container of the agent, as in SWE-bench."""
    for one in found["read"].values():
        assert one["findings"] == ["root-agent", "shared-verifier", "unpinned-image"]


def test_harbor_grades_attempts_as_our_sandboxes_do(found: dict[str, Any], ours: tuple[Path, list[Member]]) -> None:
    async def verdicts() -> list[list[bool]]:
        boxes = BwrapSandboxes(cells=1)
        try:
            return [[(await grade(one.task, patch, boxes)).resolved for patch in (one.repair, "", FORGERY)] for one in ours[1]]
        finally:
            await boxes.close()

    expected = [
        {agent: {"reward": float(good)} for agent, good in zip(("oracle", "nop", "forger"), each, strict=True)}
        for each in asyncio.run(verdicts())
    ]
    assert expected[0]["oracle"] == {"reward": 1.0}
    assert [found["attempted"]["plain"], found["attempted"]["planted-1"]] == expected


@pytest.mark.parametrize("name", REWARDS, ids=[f"{file} {text[:30]}" for file, text in REWARDS.values()])
def test_a_reward_of_others_is_read_as_harbor_reads_it(found: dict[str, Any], name: str) -> None:
    file, text = REWARDS[name]
    rewards = found["rewarded"][name]["nop"]
    value = None
    if isinstance(rewards, dict):
        value = rewards.get("reward") if len(rewards) != 1 else next(iter(rewards.values()))
    status = {} if value is None else {"reward": "passed" if value >= 1 else "failed"}
    assert READ(f"\n>>>>> Harbor {file}\n{text}") == status
