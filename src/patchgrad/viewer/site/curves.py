"""The figures of a run as curves: each number of `metrics.jsonl`, and Pass@1 of its reports, over iterations, sampled tokens or minutes.

`axes` have a place for the beginning and one behind each iteration. Two iterations of 100 and 150 sampled tokens:

    {"points": ["the beginning", "rft 0", "stage1 0"], "axes": {"iteration": [0, 1, 2], "tokens": [0, 100, 250], "minutes": null},
     "metrics": {"reward": {"title": "Reward", "at": [1, 2], "values": [0.2, 0.4], "low": [...], "high": [...], ...}}}
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from patchgrad.errors import ConfigError, Refused
from patchgrad.evaluation import over_seeds as spread
from patchgrad.store import Run
from patchgrad.values import Estimate, Report
from patchgrad.viewer import seeds
from patchgrad.viewer.comparison import Arm, gather

Row = Mapping[str, Any]

TITLES = {
    "pass_at_1": "Pass@1, training groups",
    "pass_at_k": "Pass@k, training groups",
    "held_out_pass_at_1": "Pass@1, a sample of held-out tasks",
    "held_out_pass_at_k": "Pass@k, a sample of held-out tasks",
    "reward": "Reward",
    "submitted": "Ended with a submission",
    "turns": "Turns of an attempt",
    "contrast": "Groups whose outcomes differ",
    "limited": "Ended at a limit",
    "looping": "Attempts that loop",
    "broken": "Attempts that broke",
    "entropy": "Entropy, nats a token",
    "loss": "Loss",
    "grad_norm": "Norm of the gradient",
    "clip_low": "Tokens below the clip range",
    "clip_high": "Tokens above the clip range",
    "logprob_diff": "Difference of log-probabilities, sampler and trainer",
    "ess": "Effective sample size",
    "staleness": "Publications ago that tokens were drawn",
    "sampled": "Tokens sampled in the iteration",
    "seconds/wall": "Seconds of the iteration",
}
"""What is told first, in this order; other numbers follow under their own names."""

SHARES = {
    *("pass_at_1", "pass_at_k", "held_out_pass_at_1", "held_out_pass_at_k", "submitted", "held_out_submitted", "contrast", "limited"),
    *("looping", "broken", "forked", "clip_low", "clip_high", "ess", "sampler_ess", "cores_busy"),
}
LEFT = {"phase", "iteration", "steps", "k"}
REPORTS = "reports/pass_at_1"
BEGINNING = "the beginning"


def curves(run: Run) -> dict[str, Any]:
    """All curves of a run; a damaged line of its metrics is left out."""
    rows = run.results.metrics(Refused())
    metrics = {REPORTS: _reported(rows, run.results.reports())} | {name: _measured(name, rows) for name in _names(rows)}
    return {
        "name": run.folder.resolve().name,
        "points": [BEGINNING, *(f"{row.get('phase')} {row.get('iteration')}" for row in rows)],
        "axes": {
            "iteration": list(range(len(rows) + 1)),
            "tokens": _sums([_number(row.get("sampled")) for row in rows]),
            "minutes": _sums([_minutes(row) for row in rows]),
        },
        "metrics": {name: one for name, one in metrics.items() if one["values"]},
    }


def _sums(steps: Sequence[float | None]) -> list[float] | None:
    """After each iteration what all so far took; nothing where none tells it."""
    if all(step is None for step in steps):
        return None
    return list(accumulate((step or 0.0 for step in steps), initial=0.0))


def _minutes(row: Row) -> float | None:
    told = row.get("seconds")
    wall = _number(told.get("wall")) if isinstance(told, Mapping) else None
    return None if wall is None or not isinstance(told, Mapping) else (wall + (_number(told.get("besides")) or 0.0)) / 60


def _names(rows: Sequence[Row]) -> list[str]:
    """What the rows tell numbers of: the well-known ones first, errors with what they are errors of."""
    found = dict.fromkeys(name for row in rows for name, _ in _numbers("", row))
    own = [name for name in found if not (name.endswith("_se") and name.removesuffix("_se") in found)]
    return [name for name in TITLES if name in own] + sorted(name for name in own if name not in TITLES)


def _numbers(above: str, row: Row) -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{above}{key}/", value)
        elif f"{above}{key}" not in LEFT and (number := _number(value)) is not None:
            yield f"{above}{key}", number


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _at(name: str, row: Row) -> float | None:
    """A row's number of this name. Kinds of failures that a row does not name are 0, as it names all that there were."""
    place, _, inner = name.rpartition("/")
    table: Any = row
    for key in place.split("/") if place else ():
        table = table.get(key) if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping):
        return None
    return 0.0 if place == "failures" and inner not in table else _number(table.get(inner))


def _measured(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    errors = [_at(f"{name}_se", row) if "/" not in name else None for row in rows]
    return _curve(name, [_at(name, row) for row in rows], errors, "± one standard error")


def _curve(name: str, values: Sequence[float | None], errors: Sequence[float | None], what: str) -> dict[str, Any]:
    """A figure of each iteration, in a band of its errors."""
    band = [None if value is None or error is None else (value - error, value + error) for value, error in zip(values, errors, strict=True)]
    return {
        "title": TITLES.get(name, name),
        "share": name in SHARES,
        "band": what if any(band) else "",
        "at": list(range(1, len(values) + 1)),
        "values": list(values),
        "low": [one and one[0] for one in band] if any(band) else [],
        "high": [one and one[1] for one in band] if any(band) else [],
        "names": [],
    }


def _reported(rows: Sequence[Row], reports: Sequence[Report]) -> dict[str, Any]:
    """Pass@1 of the reports that a phase of the run made."""
    return _placed([str(row.get("phase")) for row in rows], {one.name: one.pass_at_1 for one in reports}, "95 % interval over tasks")


def _placed(phases: Sequence[str], policies: Mapping[str, Estimate], what: str) -> dict[str, Any]:
    """Pass@1 of each policy behind the last iteration of the phase that made it; others have no place on an axis."""
    ends = {phase: number for number, phase in enumerate(phases, 1)}
    placed = [(place, name, one) for name, one in policies.items() if (place := _place(name, ends)) is not None]
    placed.sort(key=lambda one: one[0])
    return {
        "title": "Pass@1, all held-out tasks",
        "share": True,
        "band": what if any(math.isfinite(one.low) for _, _, one in placed) else "",
        "at": [place for place, _, _ in placed],
        "values": [_number(one.mean) for _, _, one in placed],
        "low": [_number(one.low) for _, _, one in placed],
        "high": [_number(one.high) for _, _, one in placed],
        "names": [name for _, name, _ in placed],
    }


def _place(name: str, ends: Mapping[str, int]) -> int | None:
    """Behind which iteration a policy stands: `base` at the beginning, `+ RFT` behind the last of fine-tuning."""
    stage = re.match(r"\+ stage (\d+)\b", name)
    phase = "rft" if name == "+ RFT" else f"stage{stage[1]}" if stage else ""
    return 0 if name == "base" else ends.get(phase)


# --- several seeds of one recipe -----------------------------------------------------------------


def over_seeds(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The same of each recipe of which several seeds are among the runs, as means over seeds, with the numbers of these runs.

    There are none where a seed is there twice, which the report tells.
    """
    folders = [str(run.folder) for run in runs]
    try:
        arms = gather(folders, Refused())
    except ConfigError:
        return []
    return [_over(arm, [folders.index(run.source) for run in arm.runs.values()]) for arm in arms if len(arm.runs) > 1]


def _over(arm: Arm, numbers: Sequence[int]) -> dict[str, Any]:
    rows = [run.metrics for run in arm.runs.values()]
    order = seeds.steps(rows)
    policies = {name: spread([one.pass_at_1.mean for one in arm.reports(name).values()]) for name in arm.policies}
    metrics = {REPORTS: _placed([phase for phase, _ in order], policies, "95 % interval over seeds")}
    for name in _names([row for one in rows for row in one]):
        found = seeds.means(rows, partial(_at, name), order)
        errors = [_number(one.error) for one in found]
        metrics[name] = _curve(name, [_number(one.mean) for one in found], errors, "± one standard error over seeds")

    def taken(figure: Callable[[Row], float | None]) -> list[float] | None:
        return _sums([_number(one.mean) for one in seeds.means(rows, figure, order)])

    return {
        "name": f"{arm.name}, mean of {len(numbers)} seeds",
        "runs": sorted(numbers),
        "points": [BEGINNING, *(f"{phase} {iteration}" for phase, iteration in order)],
        "axes": {
            "iteration": list(range(len(order) + 1)),
            "tokens": taken(lambda row: _number(row.get("sampled"))),
            "minutes": taken(_minutes),
        },
        "metrics": {name: one for name, one in metrics.items() if one["values"]},
    }
