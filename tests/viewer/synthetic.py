"""A run that looks like a real one: four policies, three training phases, and episodes worth reading. Seeded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np

from patchgrad.store import Run
from patchgrad.values import (
    Action,
    Call,
    Checks,
    Estimate,
    Malformed,
    Observation,
    Report,
    Repository,
    Reward,
    Rollout,
    Segment,
    Stop,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
)

RECIPE = 'name = "laptop"\nseed = 0\n\n[policy]\nmodel = ""\ncontext = 2048\n\n[[stages]]\niterations = 8\nturns = 8\n'
PATCH = """diff --git a/shop/cart.py b/shop/cart.py
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -12,5 +12,5 @@ def at_least(items, low):
     found = []
     for item in items:
-        if item > low:
+        if item >= low:
             found.append(item)
     return found
"""
STEPS = (
    (
        "The limit itself seems to be left out. I look at the function first.",
        "open shop/cart.py",
        "[shop/cart.py, 24 lines]\n12| def at_least",
    ),
    (
        "The comparison is strict; the statement says that the limit counts.",
        "edit 14:14 if item >= low:",
        "The file was changed at line 14.",
    ),
    ("I run the tests.", "pytest -q tests", "....F\nE  assert [3, 4] == [2, 3, 4]\n1 failed, 4 passed in 0.03s"),
    ("One line has the wrong indentation.", "edit 14:14         if item >= low:", "The file was changed at line 14."),
    ("Again.", "pytest -q tests", ".....\n5 passed in 0.02s"),
    ("All tests pass.", "submit", "Submitted."),
)


def episode(name: str, solved: bool, malformed: bool = False, stop: Stop = "submitted", turns: int = 6) -> Rollout:
    """One attempt at a small task."""
    task = Task(
        "workshop-0017",
        "`at_least(items, low)` in shop/cart.py should keep items that equal `low`.\nat_least([1, 2, 3, 4], 2) gives [3, 4].",
        Repository("archive", "workshop-0017.tar", "00" * 32),
        Checks(("tests/test_cart.py::test_limit_counts",), ("tests/test_cart.py::test_empty",)),
    )
    chain: list[Turn] = []
    for number, (thought, command, answer) in enumerate(STEPS[:turns]):
        odd = malformed and number == 1
        text = thought if odd else f"{thought}\n```\n{command}\n```"
        call = Malformed("no command", "Your answer holds no command.") if odd else Call(*command.partition(" ")[::2])
        action = Action(ids(range(12)), floats([-0.2 - 0.1 * number] * 12), 41, text, "stop")
        failing = command.startswith("pytest") and "failed" in answer
        content = "Your answer holds no command; write exactly one in a fenced block." if odd else answer
        seen = Observation(content, ToolState("/testbed", "shop/cart.py", 1), int(failing), failure="malformed" if odd else None)
        chain.append(Turn(ids(range(40)), action, call, seen, "s", chain[-1].address if chain else name))
    tests = (
        TestOutcome("tests/test_cart.py::test_limit_counts", "fail_to_pass", "passed" if solved else "failed"),
        TestOutcome("tests/test_cart.py::test_empty", "pass_to_pass", "passed"),
    )
    trajectory = Trajectory(name, task.id, (Segment(tuple(chain)),), stop, PATCH if stop == "submitted" else "", 3.2)
    verdict = Verdict(task.id, trajectory.submission, ("applied", "collected", "ran"), tests)
    return Rollout(task, trajectory, verdict, Reward(float(solved), {"tests": float(solved)}))


def policy(name: str, share: float, k_share: float, submitted: float, turns: float, minutes: float) -> Report:
    """One row of the table."""
    tasks, attempts = 200, 4
    error = 0.9 * math.sqrt(share * (1 - share) / tasks)
    ended = {"submitted": int(800 * submitted), "turn limit": int(700 * (1 - submitted)), "context limit": int(100 * (1 - submitted))}
    return Report(
        name=name,
        tasks=tasks,
        attempts=attempts,
        pass_at_1=Estimate(share, error, share - 2 * error, share + 2 * error),
        pass_at_k=Estimate(k_share, math.sqrt(k_share * (1 - k_share) / tasks)),
        submitted=Estimate(submitted, 0.02),
        turns=turns,
        action_tokens=turns * 17,
        seconds=60 * minutes,
        budget={"turns": 12, "context": 2048, "k": 4},
        solved={f"t{i}": int(attempts * share) for i in range(tasks)},
        stops=ended,
        failures={"no command": 30, "looping": 6},
        faults=1 if name == "base" else 0,
    )


def record(phase: str, iteration: int, step: float, rng: np.random.Generator) -> dict[str, object]:
    """One line of metrics, `step` from 0 to 1 over the whole run."""
    share = 0.14 + 0.5 * step**0.7 + rng.normal(0, 0.025)
    scale = 3.0 if phase == "rft" else 1.0
    return {
        "phase": phase,
        "iteration": iteration,
        "pass_at_1": share,
        "pass_at_1_se": 0.028,
        "pass_at_k": min(0.95, share + 0.22 + rng.normal(0, 0.02)),
        "k": 10,
        "submitted": 0.5 + 0.42 * step + rng.normal(0, 0.02),
        "turns": 5.2 + 2.6 * step + rng.normal(0, 0.15),
        "contrast": 0.5 + 0.25 * math.sin(3 * step) + rng.normal(0, 0.03),
        "entropy": 0.62 - 0.3 * step + rng.normal(0, 0.015),
        "logprob_diff": None if phase == "rft" else 2e-4 + 5e-5 * rng.random(),
        "clip_low": None if phase == "rft" else 0.01 + 0.004 * rng.random(),
        "clip_high": None if phase == "rft" else 0.018 + 0.005 * rng.random(),
        "tokens": 41_000,
        "seconds": {
            k: scale * v
            for k, v in (("sampling", 11), ("tools", 4), ("tests", 3), ("training", 8), ("idle", 1.5), ("wall", 24), ("learning", 6))
        },
        "cores_busy": 0.9 + 0.03 * rng.random(),
    }


def make(folder: Path, finished: bool = True, recipe: str = RECIPE, seed: int = 0) -> Run:
    """The whole run; without `finished` it is one that is still in its first stage of RL."""
    rng = np.random.default_rng(seed)
    phases: tuple[tuple[Literal["rft", "stage1", "stage2"], int], ...] = (("rft", 3), ("stage1", 14), ("stage2", 11))
    total, done = sum(count for _, count in phases), 0
    with Run.create(folder, recipe) as run:
        run.results.write_metrics(
            {"phase": "warmup", "iteration": 0, "seconds": {"training": 140, "idle": 6, "wall": 150}, "cores_busy": 0.97}
        )
        for phase, count in phases if finished else phases[:2]:
            for iteration in range(count):
                run.results.write_metrics(record(phase, iteration, done / total, rng))
                done += 1
            attempts = [
                episode(f"{phase}/0", True),
                episode(f"{phase}/1", False, stop="turn limit", turns=5),
                episode(f"{phase}/2", True, malformed=True),
            ]
            run.rollouts.write(phase, count - 1, attempts)
        if finished:
            run.results.write_reports(
                [
                    policy("base", 0.126, 0.33, 0.55, 5.4, 1.6),
                    policy("+ RFT", 0.241, 0.47, 0.71, 6.0, 1.7),
                    policy("+ stage 1", 0.473, 0.66, 0.88, 6.9, 2.1),
                    policy("+ stage 2", 0.613, 0.76, 0.95, 7.8, 2.3),
                ]
            )
    return run
