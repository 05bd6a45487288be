"""One iteration of learning in a run: the sampler is probed, the loop turns once, and what came of it is written and watched."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from patchgrad.contracts import Extend
from patchgrad.errors import ProgramFault, TrainingStopped
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.loop import Iteration, iterate, iterate_ahead
from patchgrad.learning.replay import Made, Priorities
from patchgrad.rollouts.attempts import AttemptSettings
from patchgrad.rollouts.conversations import first_step
from patchgrad.rollouts.harness import Harness
from patchgrad.runs.guards import AT_ONCE, Watch, figures
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.probe import before, probe
from patchgrad.runs.record import measured, recalled
from patchgrad.runs.session import RunContext, Session
from patchgrad.runs.suspicion import by_version
from patchgrad.values import Budget, Measured, TrainedTurn, digest, floats
from patchgrad.waiting import waiting_for

PROBED, PROBE_TOKENS = 16, 48  # actions of the sampler's probe at most, and the tokens of each


@dataclass(frozen=True, slots=True)
class Work:
    """What an iteration does. Attempts of another agent than the run's are not `compared`: nobody goes on after its prompts.

    `later` are the iterations whose attempts are under way meanwhile. With `again` its groups may be trained again in later ones.
    """

    id: PhaseId
    algorithm: Algorithm
    sizes: IterationSizes
    settings: AttemptSettings
    harness: Harness
    compared: bool = True
    later: tuple[PhaseId, ...] = ()
    again: Priorities | None = None


async def _nothing(context: RunContext, session: Session) -> dict[str, float]:
    return {}


async def run_iteration(
    context: RunContext,
    session: Session,
    work: Work,
    on_held_out: Callable[[RunContext, Session], Awaitable[dict[str, float]]] = _nothing,
) -> Session:
    """The session after one iteration; raises `TrainingStopped` where a guard's bound is crossed.

    `on_held_out` measures the policy after the updates; what it finds goes into the record.
    """
    label, seed, began = work.id.label, context.recipe.seed, time.monotonic()
    first = work.id.iteration == 0
    probed = await _probed(context, session, work.settings.budget, int(digest(str(seed), label)[:8], 16), far=first)
    _stop(_alarmed(context, Watch(context.recipe.guards), probed))  # before an iteration is spent on it
    done = await _iterated(session, work)
    for group in done.groups if work.compared else ():
        session.prefixes.observe(group)
    context.run.rollouts.write(work.id.trained, work.id.iteration, [r for group in done.groups for r in group.rollouts])
    turns = done.learned.turns
    context.run.trained.write(work.id.trained, work.id.iteration, turns if work.compared else [_apart(turn) for turn in turns])
    record = measured(done, work.sizes.attempts, compared=work.compared)
    if work.again:
        trained = work.algorithm.select(done.groups)
        aged = session.buffer.observe(Made(work.id.iteration, done.groups, trained, done.versions), done.recalled, work.again)
        record |= recalled(done.recalled, aged, len(session.buffer.kept))
    record["seconds"]["besides"] = time.monotonic() - began - done.usage["wall"]
    earlier = list(context.run.results.metrics())
    broken = [rollout.broken for group in done.groups for rollout in group.rollouts]
    record |= by_version(sum(broken), len(broken), earlier)
    watch = Watch(context.recipe.guards, [figures(row) for row in earlier])
    reason = _alarmed(context, watch, {"phase": work.id.trained, **record})
    if not reason:
        record |= await on_held_out(context, session)
    row = {"phase": work.id.trained, "iteration": work.id.iteration, **record, **probed}
    context.run.results.write_metrics(row)
    context.tracker.event(Measured(row))
    _stop(reason)
    return session


def _apart(turn: TrainedTurn) -> TrainedTurn:
    """The turn, without log-probabilities after another prompt than it was learned after."""
    return replace(turn, old=floats(np.full(len(turn.old), np.nan)))


async def _iterated(session: Session, work: Work) -> Iteration:
    how = work.harness, session.learner, work.algorithm, work.sizes, work.settings
    if work.sizes.lag:
        return await iterate_ahead(*how, [work.id.label, *(id.label for id in work.later)], session.ahead)
    return await iterate(*how, work.id.label)


async def _probed(context: RunContext, session: Session, budget: Budget, seed: int, *, far: bool) -> dict[str, float]:
    """What a few actions say of the sampler: after the first prompts of some tasks, and, where that is `far`, at the end of the context.

    There another rope than the trainer's shows, and no update makes another: it is read once a phase, as a long context takes a minute.
    """
    policy = session.learner.policy
    first = []
    for task in context.tasks.train[:PROBED]:
        with suppress(ProgramFault):  # a program of others that breaks is no fault of the sampler's
            said = await first_step(context.agent, task.instruction)
            first += [policy.encode(said.messages, None)] if isinstance(said, Extend) else []
    if not first:
        return {}
    tokens = min(budget.action_tokens, PROBE_TOKENS)
    with waiting_for("probe"):
        seen = await probe(policy, session.learner.trainer, before(first, budget.context - tokens, far=far), tokens, seed)
    return {"sampling_z": seen.sampling_z, "probe_logprob_diff": seen.logprob_diff}


def _alarmed(context: RunContext, watch: Watch, record: Mapping[str, Any]) -> str:
    """Says what is beyond a guard's bound; why the run has to end, or nothing. What was read again is named."""
    seen, reason = watch.see(figures(record))
    for alarm in seen:
        context.note(f"guard: {alarm.sentence}")
    worst = record.get("spot_worst")
    if worst and any(alarm.figure in AT_ONCE for alarm in seen):
        told = f"of what was read again {worst} is farthest, by {record['spot_logprob_diff']:.2g} a token"
        context.note(f"guard: {told}")
        return f"{reason}; {told}" if reason else ""
    return reason


def _stop(reason: str) -> None:
    if reason:
        raise TrainingStopped(f"A guard stopped the run: {reason}. What was committed stands; the bounds are the recipe's `guards`.")
