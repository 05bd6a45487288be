"""Guard-rails: figures of a run that tell of a fault before its Pass@1 does, each with a bound that warns and one that stops.

    seen = alarms(guards, {"entropy": 0.004, "logprob_diff": 1e-6})
    seen[0].sentence    "entropy is 0.004, below 0.01: the policy hardly explores any more"

A bound is crossed upwards or downwards, as its figure is bad. What is not measured raises no alarm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from patchgrad.recipes.bounds import Bound, Guards

MEANING: Mapping[str, str] = {
    "logprob_diff": "the trainer does not compute the log-probabilities that the sampler reported",
    "sampling_z": "actions were not drawn from the policy's own softmax; a generation_config that cuts it may have been inherited",
    "ratio": "one iteration's steps moved the policy far from the one that was sampled",
    "clip_low": "most blamed tokens are at the lower bound: the step is too large",
    "clip_high": "most praised tokens are at the upper bound: the step is too large",
    "entropy": "the policy hardly explores any more",
    "ess": "few tokens carry most of the weight: the batch is worth little",
    "idle": "no update was made, as no attempt was worth imitating or differed from the others at its task; take tasks that the policy"
    " solves now and then, more attempts at each, or a warm-up (warmup.pretrained warms a model up)",
    "no_contrast": "nearly no group has both a solved and an unsolved attempt, so there is nothing to learn from",
    "limited": "most attempts run into a limit",
    "looping": "many attempts make a call again in a state in which they had made it",
    "broken": "the infrastructure fails more than the policy does",
    "broken_by_action": "attempts break in calls of one kind more often than by chance: the policy may break its sandboxes on purpose",
    "broken_by_version": "attempts break more often than under earlier weights: the policy may learn to break its sandboxes",
}


BROKEN = ("broken", "broken_by_action", "broken_by_version")
AT_ONCE = frozenset({"logprob_diff", "sampling_z"})


@dataclass(frozen=True, slots=True)
class Alarm:
    """A figure beyond one of its bounds."""

    figure: str
    value: float
    bound: Bound
    level: Literal["warn", "stop"]

    @property
    def sentence(self) -> str:
        """What is wrong, in words."""
        limit = self.bound.stop if self.level == "stop" else self.bound.warn
        side = "above" if self.bound.stop > self.bound.warn else "below"
        return f"{self.figure} is {self.value:.3g}, {side} {limit:g}: {MEANING[self.figure]}"


def alarms(guards: Guards, figures: Mapping[str, float]) -> list[Alarm]:
    """What is beyond a bound in one iteration, in the order of `Guards`."""
    found = []
    for one in fields(guards):
        bound = getattr(guards, one.name)
        if isinstance(bound, Bound) and one.name in figures and (level := bound.crossed(figures[one.name])):
            found.append(Alarm(one.name, figures[one.name], bound, level))
    return found


def figures(row: Mapping[str, Any]) -> dict[str, float]:
    """The figures of an iteration's record in `metrics.jsonl`; what the record does not have is left out.

    The difference is the largest of the probe's, of what was read again, and of the first update where all that it trains was sampled under
    the weights as they were then: from the second on the policy is another. How far it moves, in `ratio` and `ess`, is for RL to mind;
    fine-tuning is to move it.
    """
    told = {name: row.get(name) for name in ("clip_low", "clip_high", "entropy", "limited", "looping", *BROKEN)}
    earlier = row.get("staleness_max") or row.get("replay")
    first = None if earlier else next((step.get("logprob_diff") for step in row.get("steps", ())), None)
    differences = (first, row.get("probe_logprob_diff"), row.get("spot_logprob_diff"))
    told["logprob_diff"] = max((value for value in differences if value is not None), default=None)
    told["sampling_z"] = min((value for value in (row.get("sampling_z"), row.get("spot_sampling_z")) if value is not None), default=None)
    if row.get("phase") != "rft":
        told["ess"] = row.get("ess")
        told["ratio"] = abs(row["ratio"] - 1.0) if row.get("ratio") is not None else None
    told["idle"] = float(row["updates"] == 0) if row.get("updates") is not None else None
    told["no_contrast"] = 1.0 - row["contrast"] if row.get("contrast") is not None else None
    return {name: float(value) for name, value in told.items() if value is not None}


def fruitless(guards: Guards, rows: Sequence[Mapping[str, Any]]) -> str:
    """Why a run whose iterations, by their records, were all `idle` has learned nothing; nothing where one was not, or does not say."""
    idle = [figures(row).get("idle") for row in rows]
    if not idle or any(value is None or guards.idle.crossed(value) != "stop" for value in idle):
        return ""
    return f"{MEANING['idle']} ({len(idle)} of {len(idle)} iterations)"


@dataclass(slots=True)
class Watch:
    """Counts how often in a row a figure was beyond its last bound; `history` are the figures of a run's earlier iterations."""

    guards: Guards
    history: Sequence[Mapping[str, float]] = ()
    _rows: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for figures in self.history:
            self._count(figures)

    def see(self, figures: Mapping[str, float]) -> tuple[list[Alarm], str]:
        """The alarms of an iteration, and why the run has to end, or nothing."""
        self._count(figures)
        seen = alarms(self.guards, figures)
        last = [alarm for alarm in seen if alarm.level == "stop" and self._rows[alarm.figure] >= self._patience(alarm.figure)]
        return seen, "; ".join(self._reason(alarm) for alarm in last)

    def _count(self, figures: Mapping[str, float]) -> None:
        beyond = {alarm.figure for alarm in alarms(self.guards, figures) if alarm.level == "stop"}
        self._rows = {name: self._rows.get(name, 0) + 1 for name in beyond}

    def _patience(self, figure: str) -> int:
        if figure in AT_ONCE:
            return 1
        return -(-self.guards.patience // 2) if figure == "idle" else self.guards.patience

    def _reason(self, alarm: Alarm) -> str:
        rows = self._rows[alarm.figure]
        return alarm.sentence + (f" ({rows} iterations in a row)" if rows > 1 else "")
