"""How turns fail, and what becomes of those that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from patchgrad.values import Bools, Malformed, Trajectory, repeated, undone

Treatment = Literal["keep", "mask", "withhold", "penalise", "drop"]


FailurePolicy = Mapping[str, Treatment]
"""What becomes of turns by how they failed, in fine-tuning and RL alike; a kind that is not named is kept.

`mask`: the turn is context, and not trained. `withhold`: never rewarded, its advantage is at most 0. `penalise`: at most minus a penalty
(`PENALTY`, unless another is said), whatever became of its attempt. `drop`: its attempt is not trained at all, and still counts in its
group. Where two are said of a turn, as it failed in one way and its attempt in another, it is the one that leaves less of it (`STRICTER`).
"""


STRICTER: tuple[Treatment, ...] = ("keep", "withhold", "penalise", "mask", "drop")


PENALTY = 1.5
"""More than a reward of 1, so that a turn that is penalised is blamed more than it would be praised."""


KINDS = frozenset(
    {
        *("no command", "truncated", "several commands", "unknown tool", "bad arguments", "looping", "undone"),
        *("timeout", "died", "out of memory", "sandbox lost", "infrastructure"),
        "overlong",
    }
)
"""How a turn can have failed.

`truncated` is one that ran out of tokens before its command ended, `sandbox lost` one that left its sandbox so that nobody can go on in it,
which ends the attempt, and `overlong` are all turns of an attempt that ran into a limit. Turns that a fork replays are always masked.
"""


LIMITS = ("turn limit", "context limit", "time limit")


KEEP_ALL: FailurePolicy = MappingProxyType({})
"""RL: a turn that failed stays an example of what not to do, as does an attempt that ran into a limit (sections 6.4, 6.5)."""


MASK_FORMAT_ERRORS: FailurePolicy = MappingProxyType(
    {"no command": "mask", "truncated": "mask", "several commands": "mask", "unknown tool": "mask", "bad arguments": "mask"}
)
"""Imitation: a turn that the environment could not read is context, never imitated (section 5)."""


def kept(trajectory: Trajectory, failures: FailurePolicy = KEEP_ALL) -> Bools:
    """Which of an attempt's action tokens are trained: all but those of turns that the policy of failures masks."""
    trained: Bools = _treatments(trajectory, failures) != "mask"
    return trained


def _treatments(trajectory: Trajectory, failures: FailurePolicy) -> npt.NDArray[np.str_]:
    least = failures.get("overlong", "keep") if trajectory.stop in LIMITS else "keep"
    treatments: list[Treatment] = [max(least, failures.get(kind or "", "keep"), key=STRICTER.index) for kind in kinds(trajectory)]
    if "drop" in treatments:
        treatments = ["mask"] * len(treatments)
    treatments[: trajectory.replayed] = ["mask"] * trajectory.replayed
    return np.repeat(treatments, [len(turn.action.token_ids) for turn in trajectory.turns])


def kinds(trajectory: Trajectory) -> list[str | None]:
    """How each turn failed, `None` where it did not: `replayed`, its format error, its observation's failure, `looping` or `undone`.

    A turn loops if an earlier one of its attempt made the same call in the same state, which is the address of the files and where the
    agent stood: a third `replace " <" " <="` that tests refuse and `git restore` undoes tells nothing that the first had not told. The
    first is `undone`: it told something, and was no repair.
    """
    found: list[str | None] = []
    for turn, again, back in zip(trajectory.turns, repeated(trajectory.turns), undone(trajectory.turns), strict=True):
        failure: str | None = turn.call.kind if isinstance(turn.call, Malformed) else turn.observation.failure
        if failure == "no command" and turn.action.finish == "length":
            failure = "truncated"
        # The shell has answered what it does not know, and would answer the same.
        looping = again and failure in (None, "unknown tool")
        found.append("looping" if looping else failure or ("undone" if back else None))
    return [*("replayed" for _ in range(trajectory.replayed)), *found[trajectory.replayed :]]


def failed(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """How many turns failed in each way, the most frequent first: `{"looping": 12, "timeout": 1}`.

    What forks replay is not counted, and neither is an edit that was taken back, as who tries has to be wrong at times.
    """
    found = Counter(kind for trajectory in trajectories for kind in kinds(trajectory) if kind not in (None, "replayed", "undone"))
    return {str(kind): count for kind, count in found.most_common()}
