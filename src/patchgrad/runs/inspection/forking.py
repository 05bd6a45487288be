"""An attempt goes on again and again after one of its turns: how likely is it solved from there?

run, attempt, turn -> its first turns and the files they left -> attempts that go on after them -> their share that is solved
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from patchgrad.config import loads
from patchgrad.errors import ConfigError
from patchgrad.grading.rewards import Resolved
from patchgrad.recipes.recipe import Recipe
from patchgrad.rollouts.attempts import Attempt, derive_seed, run_attempts
from patchgrad.rollouts.budget import Budget
from patchgrad.runs.build import build_harness, sandboxes
from patchgrad.runs.demonstrations.lessons import open_model
from patchgrad.runs.inspection.replay import find
from patchgrad.store import Run
from patchgrad.trainers.local import version_of
from patchgrad.values import Rollout, Snapshot


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
    recipe, source = loads(Recipe, run.recipe), find(run, attempt)
    taken = source.trajectory.turns
    if not 0 <= turn < len(taken):
        raise ConfigError(f"{attempt} has {len(taken)} turns, so it can go on after turn 0 to {len(taken) - 1}, and not after {turn}.")
    if attempts < 1:
        raise ConfigError(f"attempts is {attempts}; at least one has to be made.")
    here = replace(recipe, policy=replace(recipe.policy, vllm="", options=()))  # a few attempts are not worth a server
    folder = checkpoint or run.find()
    trainer, policy = open_model(folder, here)
    policy.load(trainer.weights(), version_of(folder))
    policy.training = False
    if taken[0].action.origin is not None and taken[0].action.origin.fingerprint != policy.fingerprint:
        raise ConfigError(f"{attempt} was said by a policy with another tokenizer or template: name a checkpoint of its run.")
    choice, agent = recipe.evaluation, recipe.agent
    budget = Budget(choice.turns, choice.context, agent.action_tokens, choice.seconds, agent.format_errors)
    boxes = sandboxes(recipe.sandbox)
    left: dict[str, Snapshot] = {}  # by the forks themselves: where a sandbox breaks, they go on from there

    def keep(snapshot: Snapshot) -> None:
        left[snapshot.address] = snapshot
        if out is not None:
            out.states.put(snapshot)

    def state(address: str, directory: str) -> Snapshot:
        return replace(left[address], directory=directory) if address in left else run.states.get(address, directory)

    harness = replace(build_harness(agent, recipe.sandbox, boxes), on_state=keep, state=state, sampling=choice.sampling)
    if out is not None:
        harness = replace(harness, on_turn=out.write_turn, on_ending=out.write_ending)
    label = f"fork/{attempt}/{turn}"
    origin = (source.trajectory.origin or attempt) if turn else ""
    items = [
        Attempt(source.task, f"{label}/{number}", derive_seed(recipe.seed, f"{label}/{number}"), taken[:turn], origin)
        for number in range(attempts)
    ]
    try:
        done = await run_attempts(harness, policy, items, budget, Resolved(), on_rollout)
    finally:
        await boxes.close()
    if out is not None:
        out.write_rollouts("fork", 0, done)
    return done
