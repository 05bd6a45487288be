"""What a board is told: the records of iterations and the reports of policies, by the names that the field gives them.

TRL, verl and prime-rl have similar names, so that who has read one of their boards reads these. What none of them has keeps its own name,
below `patchgrad/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchgrad.runs.phase_id import PhaseId
from patchgrad.values import Report

NAMES = {
    "reward": "reward/mean",
    "pass_at_1": "rollout/pass@1",
    "pass_at_k": "rollout/pass@k",
    "turns": "rollout/turns",
    "submitted": "rollout/submitted",
    "limited": "rollout/truncated",
    "looping": "rollout/looping",
    "broken": "rollout/broken",
    "contrast": "rollout/groups_with_contrast",
    "episodes": "rollout/episodes",
    "loss": "policy/loss",
    "entropy": "policy/entropy",
    "kl3": "policy/kl",
    "grad_norm": "policy/grad_norm",
    "ratio": "policy/ratio",
    "ess": "policy/effective_sample_size",
    "logprob_diff": "policy/sampler_trainer_logp_diff",
    "staleness": "policy/staleness",
    "updates": "policy/updates",
    "seconds/tests": "time/grade",
}
"""Of a record's figures by their keys. Attempts are graded while others go on, so `time/grade` counts seconds of cores; the rest of `time/`
is on the clock."""

UNREAD = ("no command", "several commands", "unknown tool", "bad arguments")
"""Failures of a turn that no command could be read from, of which `rollout/format_errors` is the share of turns."""

HELD_OUT = "held_out"
"""What the set is called that a run evaluates its policies on."""

SUMS = {"sampled": "tokens/sampled", "trained": "tokens/trained"}
"""Of those that are told as sums since the run began."""


@dataclass(frozen=True, slots=True)
class Point:
    """Figures after so many iterations of the run; of an iteration its `phase` and number within it, of a report nothing."""

    step: int
    figures: Mapping[str, float]
    phase: str = ""
    iteration: int = 0


def points(rows: Sequence[Mapping[str, Any]], reports: Sequence[Report]) -> list[Point]:
    """All that there is to tell, in the order in which it came to be: a report stands behind the last iteration of its phase.

    Two phases of one iteration each, and three reports, are the steps 0 (the base), 1, 1 (after the first phase), 2, 2.
    """
    after = {report.name: report for report in reports[1:]}
    sums, found = {"time/total": 0.0, **dict.fromkeys(SUMS.values(), 0.0)}, [Point(0, _evaluated(report)) for report in reports[:1]]
    for number, row in enumerate(rows, 1):
        sums["time/total"] += _seconds(row, "wall") + _seconds(row, "besides")
        for key, name in SUMS.items():
            sums[name] += row.get(key) or 0.0
        found.append(Point(number, {**_measured(row), **sums}, str(row["phase"]), int(row["iteration"])))
        last = number == len(rows) or rows[number]["phase"] != row["phase"]
        if last and (report := after.get(_reported(str(row["phase"])))):
            found.append(Point(number, _evaluated(report)))
    return found


def _reported(trained: str) -> str:
    """What the policy is called that is evaluated after what is filed under this name; nothing where none is."""
    number = trained.removeprefix("stage")
    stage = 0 if trained == "rft" else int(number) if number.isdecimal() else None
    return "" if stage is None else PhaseId("evaluate", stage).reported


def _measured(row: Mapping[str, Any]) -> dict[str, float]:
    """An iteration's figures, with its time in seconds on the clock."""
    told = dict(_numbers("", {key: value for key, value in row.items() if key not in ("phase", "iteration", "steps", *SUMS)}))
    clipped = [row[key] for key in ("clip_low", "clip_high") if row.get(key) is not None]
    return {
        **{NAMES.get(key, f"patchgrad/{key}"): value for key, value in told.items()},
        **({"policy/clip_fraction": sum(clipped)} if clipped else {}),
        **_unread(row),
        "time/step": _seconds(row, "wall") + _seconds(row, "besides"),
        "time/sample": _seconds(row, "wall") - _seconds(row, "learning"),
        "time/update": _seconds(row, "learning"),
    }


def _unread(row: Mapping[str, Any]) -> dict[str, float]:
    turns = (row.get("episodes") or 0) * (row.get("turns") or 0.0)
    failures = row.get("failures")
    return {"rollout/format_errors": sum(failures.get(kind, 0) for kind in UNREAD) / turns} if turns and failures is not None else {}


def _evaluated(report: Report) -> dict[str, float]:
    """Of the whole set, and Pass@1 of each kind of tasks in it."""
    told = {"pass@1": report.pass_at_1.mean, "pass@1_se": report.pass_at_1.error, "pass@k": report.pass_at_k.mean}
    told |= {"turns": report.turns, "submitted": report.submitted.mean}
    named = {f"eval/{part}/pass@1": one.mean for part, one in report.parts.items()}
    named |= {f"eval/{HELD_OUT}/{name}": value for name, value in told.items()}
    return {name: value for name, value in named.items() if math.isfinite(value)}


def _seconds(row: Mapping[str, Any], name: str) -> float:
    return float((row.get("seconds") or {}).get(name) or 0.0)


def _numbers(above: str, row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The finite numbers of a record, those of its tables as `table/key`."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{above}{key}/", value)
        elif isinstance(value, bool | int | float) and math.isfinite(value):
            yield above + key, float(value)
