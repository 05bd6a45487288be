"""The public names of `patchgrad`: what a user may rely on stands in this list, and importing the package takes no time."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import patchgrad

NAMES = (
    *("Action", "Agent", "Call", "Checks", "ComponentError", "ConfigError", "Curriculum", "Estimator", "Event", "Extend", "Finish"),
    *("FunctionEstimator", "FunctionJudge", "FunctionObjective", "FunctionReward", "FunctionTool", "Group", "Journal", "Judge"),
    *("Judgement", "Malformed", "Message", "Objective", "Observation", "PatchgradError", "Policy", "PolicyFault", "ReactAgent"),
    *("Recipe", "Report", "Repository", "Restart", "Result", "Reward", "RewardFunction", "Rollout", "Run", "Sandbox", "SandboxFault"),
    *("SandboxLost", "Sandboxes", "StoreError", "Task", "TaskError", "TaskSource", "Tokenizer", "Tool", "ToolState", "Tracker"),
    *("TrainablePolicy", "Trained", "Trainer", "TrainingStopped", "Trajectory", "Turn", "Verdict", "evaluate", "plan", "recipe"),
    *("testing", "toolset", "train"),
)


def test_the_public_names_are_these() -> None:
    assert tuple(patchgrad.__all__) == NAMES
    assert set(dir(patchgrad)) == {*NAMES, "__version__"}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there_and_explained(name: str) -> None:
    assert getattr(patchgrad, name).__doc__ or name in ("Estimator", "Event"), "a type of several has no docstring of its own"


def test_another_name_is_refused_in_a_sentence() -> None:
    with pytest.raises(AttributeError, match="patchgrad has no trian"):
        patchgrad.trian  # noqa: B018


def test_the_import_is_quick() -> None:
    """The best of five, in a fresh interpreter, less what the interpreter itself takes."""

    def best(code: str) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", code], check=True)
            times.append(time.perf_counter() - began)
        return min(times)

    assert best("import patchgrad") - best("pass") < 0.15
