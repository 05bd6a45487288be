"""What `metrics.jsonl` tells of an iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from patchgrad.evaluation import over_tasks, pass_at_k
from patchgrad.learning.failures import LIMITS, failed, kinds
from patchgrad.learning.loop import Iteration
from patchgrad.learning.replay import Recalled
from patchgrad.learning.spot import Spot
from patchgrad.runs.suspicion import by_action
from patchgrad.values import Group, Rollout

DISTANCES = ("logprob_diff", *(pair + name for pair in ("", "sampler_") for name in ("ratio", "ratio_max", "ess", "kl1", "kl3")))
"""How far the policy is from the one that sampled, of each update."""

TOLD = ("loss", "entropy", "grad_norm", "clip_low", "clip_high", "clip_dual", "truncated", "masked", "kl_penalty", *DISTANCES)
"""What an iteration's record tells of each of its updates, and of all as means, or as the largest where the name says so. What an
objective of the user's measures stands beside it, as `objective/NAME`."""

EARLIER = ("staleness", "staleness_max", "replayed", "replay_far", "replay_aged", "replay_kept")
"""What an iteration's record tells where earlier weights may have sampled what it trains."""


def measured(done: Iteration, k: int, compared: bool = True) -> dict[str, Any]:
    """The record of one iteration: the paper's four figures, the time by phase, and what its updates measured, each and in the mean.

    Where attempts are imitated after another prompt than they were sampled after, they are not `compared` with their sampler.
    """
    groups = [Group(tuple(r for r in g.rollouts if not r.broken)) for g in done.groups if not all(r.broken for r in g.rollouts)]
    rollouts = [r for g in groups for r in g.rollouts]
    outcomes = [[r.solved for r in g.whole] for g in groups if g.whole]
    usage = {"seconds": {name: value for name, value in done.usage.items() if name != "cores_busy"}, "cores_busy": done.usage["cores_busy"]}
    if not rollouts:
        return {"episodes": 0, "updates": 0, "broken": 1.0, **by_action(done.groups), **usage}
    steps = [
        {
            **{name: update.metrics[name] for name in TOLD if name in update.metrics and (compared or name not in DISTANCES)},
            **{name: value for name, value in update.metrics.items() if name.startswith("objective/")},
        }
        for update in done.learned.updates
    ]
    means = {name: (max if name.endswith("_max") else fmean)(step[name] for step in steps) for name in (steps[0] if steps else ())}
    return {
        **_solved(outcomes, k),
        "submitted": fmean(r.trajectory.stop == "submitted" for r in rollouts),
        "turns": fmean(len(r.trajectory.turns) for r in rollouts),
        **errors(groups),
        "contrast": fmean(0 < g.solve_rate < 1 for g in groups),
        "limited": fmean(r.trajectory.stop in LIMITS for r in rollouts),
        "looping": fmean("looping" in kinds(r.trajectory) for r in rollouts),
        "failures": failed(r.trajectory for r in rollouts),
        "broken": 1 - len(rollouts) / sum(len(g.rollouts) for g in done.groups),
        **by_action(done.groups),
        "forked": fmean(r.trajectory.replayed > 0 for r in rollouts),
        "reward": fmean(r.reward.value for r in rollouts),
        "episodes": len(rollouts),
        **_spent(rollouts),
        "updates": len(done.learned.updates),
        "tokens": sum(u.metrics["tokens"] for u in done.learned.updates),
        "trained": sum(u.metrics["trained"] for u in done.learned.updates),
        **_stale(rollouts, done.versions),
        **_spot(done.spot),
        **usage,
        **means,
        "steps": steps,
    }


def _spot(spot: Spot | None) -> dict[str, Any]:
    """What the attempts tell that were read again, and which turn is farthest from what it says."""
    if spot is None:
        return {}
    worst = f"{spot.attempt}, turn {spot.turn}"
    return {"spot": spot.actions, "spot_logprob_diff": spot.logprob_diff, "spot_sampling_z": spot.sampling_z, "spot_worst": worst}


def recalled(groups: Sequence[Recalled], aged: int, kept: int) -> dict[str, Any]:
    """The groups of earlier iterations that were drawn to be trained again: those that are not `near` were not.

    So many went out of the buffer by their age, and so many are kept in it.
    """
    drawn = [
        {"iteration": one.kept.iteration, "group": one.kept.group, "weight": one.weight, "ess": one.ess, "near": one.near} for one in groups
    ]
    near = sum(one.near for one in groups)
    return {"replay": drawn, "replayed": near, "replay_far": len(drawn) - near, "replay_aged": aged, "replay_kept": kept}


def _stale(rollouts: Sequence[Rollout], versions: Sequence[int]) -> dict[str, float]:
    """How many publications ago action tokens were drawn, in the mean and at most, where several versions may have drawn them."""
    if len(versions) < 2:
        return {}
    ago = {version: len(versions) - 1 - place for place, version in enumerate(versions)}
    turns = [turn for rollout in rollouts for turn in rollout.trajectory.turns[rollout.trajectory.replayed :]]
    ages = [ago[version] for turn in turns for version in turn.action.drawn_under.tolist()]
    return {"staleness": fmean(ages), "staleness_max": float(max(ages))} if ages else {}


def _solved(outcomes: Sequence[Sequence[bool]], k: int) -> dict[str, Any]:
    """Pass@1 and Pass@k of the attempts that began at the beginning of their tasks; nothing where none did."""
    if not outcomes:
        return {}
    first = over_tasks([fmean(solved) for solved in outcomes])
    most = over_tasks([pass_at_k(len(solved), sum(solved), min(k, len(solved))) for solved in outcomes])
    return {"pass_at_1": first.mean, "pass_at_1_se": first.error, "pass_at_k": most.mean, "pass_at_k_se": most.error, "k": k}


def errors(groups: Sequence[Group]) -> dict[str, float]:
    """Standard errors over tasks of the share submitted and of the turns of an attempt; attempts at one task are not independent."""
    submitted = [fmean(r.trajectory.stop == "submitted" for r in group.rollouts) for group in groups]
    turns = [fmean(len(r.trajectory.turns) for r in group.rollouts) for group in groups]
    told = {"submitted_se": submitted, "turns_se": turns}
    return {name: stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan for name, values in told.items()}


def _spent(rollouts: Sequence[Rollout]) -> dict[str, int]:
    """Tokens that were sampled, and that were read for it: of an attempt its whole stream once, replayed turns included."""
    own = [turn for r in rollouts for turn in r.trajectory.turns[r.trajectory.replayed :]]
    streams = [turn for r in rollouts for turn in r.trajectory.turns]
    sampled = sum(len(turn.action.token_ids) for turn in own)
    return {"sampled": sampled, "read": sum(len(turn.context) + len(turn.action.token_ids) for turn in streams) - sampled}
