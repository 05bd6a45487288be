"""The policy on held-out tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.recipe import Recipe
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import Stage
from patchgrad.runs.measure import assess
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.record import errors
from patchgrad.runs.session import RunContext, Session
from patchgrad.tasks.evaluation_sets import fifty
from patchgrad.values import Evaluated, Group, Report, Task


async def evaluate(context: RunContext, session: Session, name: str, trained: Rft | Stage | None) -> Session:
    """The policy on all held-out tasks; where it is not the last one, `trained` is the phase that made it."""
    choice, tasks = context.recipe.evaluation.under(trained), context.tasks.held_out
    context.begin(f"evaluate {name}", len(tasks) * choice.attempts)
    groups, report = await _assessed(context, session, tasks, name, choice)
    about = {**report.about, "choice": session.choice} if session.choice else report.about
    report = replace(report, seconds=session.minutes * 60 + report.seconds, about=about)
    reports = (*(one for one in session.reports if one.name != name), report)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    context.run.rollouts.write(f"evaluate-{len(reports)}", 0, rollouts)
    context.run.results.write_reports(reports)
    context.run.results.write_predictions(f"patchgrad {context.recipe.name} {name}", rollouts)
    context.tracker.event(Evaluated(reports))
    return replace(session, reports=reports)


async def on_a_sample(context: RunContext, session: Session, id: PhaseId, stage: Stage) -> dict[str, float]:
    """How the policy does on held-out tasks after this iteration of a stage, where the recipe asks for it."""
    choice = between(context.recipe, id, stage)
    if choice is None:
        return {}
    sample = fifty(context.tasks.held_out) or context.tasks.held_out[: choice.sample]
    context.begin(f"{id.trained}, iteration {id.iteration + 1}: held-out tasks", len(sample) * choice.attempts)
    groups, report = await _assessed(context, session, sample, id.label, choice)
    return {
        "held_out_pass_at_1": report.pass_at_1.mean,
        "held_out_pass_at_1_se": report.pass_at_1.error,
        "held_out_pass_at_k": report.pass_at_k.mean,
        "held_out_pass_at_k_se": report.pass_at_k.error,
        "held_out_submitted": report.submitted.mean,
        "held_out_turns": report.turns,
        **{f"held_out_{name}": error for name, error in errors(groups).items()},
    }


def between(recipe: Recipe, id: PhaseId, stage: Stage) -> EvaluationChoice | None:
    """How the policy is measured after this iteration; `None` where it is not."""
    every = recipe.evaluation.every
    if not every or (id.iteration + 1) % every:
        return None
    return recipe.evaluation.under(stage if stage is not recipe.stages[-1] else None)


async def _assessed(
    context: RunContext, session: Session, tasks: Sequence[Task], name: str, choice: EvaluationChoice
) -> tuple[list[Group], Report]:
    return await assess(context.harness, session.learner.policy, tasks, replace(context.recipe, evaluation=choice), name)
