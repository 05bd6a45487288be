"""Our tasks as a task of inspect_ai's: what is repaired is correct, with inspect_ai itself, which `make guests` installs.

The model is inspect_ai's own `mockllm`, which says what it is told to; agent, tools, sandbox and grading are those of any other model.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.guests.environments import told

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a log of inspect_ai's says of three samples."""
    script, folder = Path(__file__).with_name("with_inspect.py"), tmp_path_factory.mktemp("inspect")
    said: dict[str, Any] = told("inspect", script, str(folder), INSPECT_DISPLAY="none")
    return said


def test_what_was_repaired_is_correct_and_what_was_not_is_not(found: dict[str, Any]) -> None:
    assert found["status"] == "success"
    values = {one["id"]: one["value"] for one in found["samples"]}
    assert values == {"repaired": "C", "untouched": "I", "forged": "I"}
    assert found["metrics"]["accuracy"] == pytest.approx(1 / 3)
    assert found["metrics"]["stderr"] > 0


def test_a_score_has_the_patch_and_what_the_hidden_tests_say(found: dict[str, Any]) -> None:
    samples = {one["id"]: one for one in found["samples"]}
    assert "+    return sum(prices)\n" in samples["repaired"]["answer"]
    assert samples["repaired"]["explanation"] == "all hold"
    assert samples["untouched"]["explanation"].startswith("failed: test_shop.py::test_total")
    assert "added configuration conftest.py" in samples["forged"]["explanation"]


def test_the_sandbox_is_one_of_inspect_ais(found: dict[str, Any]) -> None:
    """Files with folders, standard input, a working folder, variables, exit codes, time, and a user that it has not."""
    assert found["sandbox"] == {
        "file": "it is\n",
        "bytes": True,
        "input": "said",
        "cwd": "/tmp",
        "env": "1",
        "code": 3,
        "slow": "TimeoutError",
        "user": "SandboxUserUnsupportedError",
        "missing": "FileNotFoundError",
    }
