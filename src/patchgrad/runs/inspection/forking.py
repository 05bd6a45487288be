"""An attempt goes on again and again after one of its turns: how likely is it solved from there?

run, attempt, turn -> its first turns and the files they left -> attempts that go on after them -> their share that is solved
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from patchgrad.errors import ConfigError
from patchgrad.grading import Grader
from patchgrad.grading.rewards import Resolved
from patchgrad.rollouts.attempts import derive_seed, run_attempts
from patchgrad.rollouts.journals import LayeredJournal, MemoryJournal
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.build.learner import open_model
from patchgrad.runs.components.code import registry_of
from patchgrad.runs.inspection.replay import find
from patchgrad.runs.reading import recipe_of
from patchgrad.runs.tasks import solutions
from patchgrad.store import Run
from patchgrad.trainers.checkpoint import version_of
from patchgrad.values import Attempt, Rollout


async def fork(
    run: Run,
    attempt: str,
    turn: int,
    attempts: int,
    *,
    checkpoint: Path | None = None,
    out: Run | None = None,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
) -> list[Rollout]:
    """`attempts` continuations of an attempt after its first `turn` turns, under the limits and the sampling of the recipe's evaluation.

    The policy is the run's last one, or that of another `checkpoint` with the same tokenizer. Where `out` is given it keeps them: turns,
    states and a table. `ConfigError` where there is nothing to go on after.
    """
    recipe, source, registry = recipe_of(run), find(run, attempt), registry_of(run)
    taken = source.trajectory.turns
    if not 0 <= turn < len(taken):
        raise ConfigError(f"{attempt} has {len(taken)} turns, so it can go on after turn 0 to {len(taken) - 1}, and not after {turn}.")
    if attempts < 1:
        raise ConfigError(f"attempts is {attempts}; at least one has to be made.")
    here = replace(recipe, policy=replace(recipe.policy, vllm="", options=()))  # a few attempts are not worth a server
    folder = checkpoint or run.checkpoints.find()
    trainer, policy = open_model(folder, here, registry)
    policy.load(trainer.weights(), version_of(folder))
    origin = taken[0].action.origin
    if origin is not None and origin.fingerprint != policy.tokenizer.fingerprint:
        raise ConfigError(f"{attempt} was said by a policy with another tokenizer or template: name a checkpoint of its run.")
    choice, label = recipe.evaluation, f"fork/{attempt}/{turn}"
    sampling = replace(choice.sampling, purpose="evaluation")
    budget, forked = recipe.agent.budget(choice.limits), (source.trajectory.origin or attempt) if turn else ""
    items = [
        Attempt(source.task, name, derive_seed(recipe.seed, name), budget, sampling, taken[:turn], forked)
        for name in (f"{label}/{number}" for number in range(attempts))
    ]
    boxes = harnesses.sandboxes(recipe.sandbox, registry)
    journal = LayeredJournal(MemoryJournal() if out is None else out.journal, run.journal)
    try:
        harness = harnesses.harness(recipe.agent, recipe.sandbox, Grader(boxes, solutions(recipe)), journal, on_rollout, registry)
        done = await run_attempts(harness, policy, items, Resolved())
    finally:
        policy.close()
        await boxes.close()
    if out is not None:
        out.rollouts.write("fork", 0, done)
    return done
