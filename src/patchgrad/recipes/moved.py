"""Keys of recipes and of evaluations that are called otherwise now, and values that are.

`*` stands for the number of a stage, a name that ends in a dot for all below it (`config.renamed`). Whoever reads a run's recipe
translates them (`runs/reading.py`); in a file or on a command line they are refused, with the name of today.
"""

from __future__ import annotations

from collections.abc import Mapping

STAGE: Mapping[str, str] = {
    "refresh_before": "start.refresh_before",
    "pool": "start.pool",
    "starts": "start.at",
    "tasks": "sampling.tasks",
    "attempts": "sampling.attempts",
    "forks": "sampling.forks",
    "continuations": "sampling.continuations",
    "top_p": "sampling.top_p",
    "turns": "limits.turns",
    "context": "limits.context",
    "seconds": "limits.seconds",
    "length_threshold": "reward.length_threshold",
    "length_weight": "reward.length_weight",
    "filter_on": "advantage.filter_on",
    "baseline": "advantage.baseline",
    "lowered": "advantage.baseline_offset",
    "baseline_offset": "advantage.baseline_offset",
    "step_weight": "advantage.step_weight",
    "discount": "advantage.discount",
    "certain": "advantage.confident_above",
    "confident_above": "advantage.confident_above",
    "failures.": "advantage.failures.",
    "clip_low": "loss.clip_low",
    "clip_high": "loss.clip_high",
    "aggregate": "loss.aggregate",
    "old": "loss.old",
    "minibatch": "loss.minibatch",
    "mismatch.": "loss.correction.",
    "correction.": "loss.correction.",
    "penalty.": "loss.kl_penalty.",
    "kl_penalty.": "loss.kl_penalty.",
}

MOVED: Mapping[str, str] = {
    **{f"stages.*.{old}": f"stages.*.{new}" for old, new in STAGE.items()},
    **{f"{phase}.{name}": f"{phase}.limits.{name}" for phase in ("rft", "evaluation") for name in ("turns", "context", "seconds")},
    "evaluation.limits": "evaluation.limits_per_policy",
    "optimiser.pack": "optimiser.micro_batch_tokens",
    "optimiser.recompute": "optimiser.gradient_checkpointing",
    "sandbox.once": "sandbox.cache",
    "sandbox.live": "sandbox.concurrency",
    "tasks.mix.workshop": "tasks.mix.synthetic",
    "warmup.drills": "warmup.edit_drills",
    "warmup.looks": "warmup.first_turns",
    "guards.gap.": "guards.logprob_diff.",
    "guards.surprise.": "guards.sampling_z.",
    "guards.effective.": "guards.ess.",
}
"""Old -> new."""

RENAMED: Mapping[tuple[str, str], str] = {("tasks.source", "workshop"): "synthetic"}
"""A key and its old value -> the value of today."""

IMPLIED: Mapping[str, Mapping[str, tuple[object, object]]] = {
    "dapo": {"loss.clip_high": ("none", 0.3)},
    "reinforce": {"advantage.filter_on": ("outcome", "none")},
    "reinforce++": {"advantage.filter_on": ("outcome", "none")},
}
"""What a row had of its own before rows were as published: where a stage of an old run has the first, it meant the second."""
