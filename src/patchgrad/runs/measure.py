"""What is done with an evaluation: its tasks, its policy, every attempt, and the report.

Evaluation -> tasks, policy, harness -> every attempt (`rollouts.attempts`) -> scores, where the best of n is chosen -> Report
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from patchgrad.contracts import Journal, Policy, Sandboxes, Scorer, Tracker
from patchgrad.endpoints import KEY, Chat
from patchgrad.errors import ConfigError, Refuse, stop
from patchgrad.evaluation import Measured, summarise
from patchgrad.grading import Grader, VisibleTests
from patchgrad.grading.handed_in import write_runs
from patchgrad.grading.rewards import Resolved
from patchgrad.policies.endpoint import EndpointPolicy
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.recipes.recipe import Recipe
from patchgrad.rollouts.apart import each_apart
from patchgrad.rollouts.attempts import AttemptSettings, collect_groups
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.components.code import files_of
from patchgrad.runs.components.parts import acting_parts
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.event_loop import run_to_end
from patchgrad.runs.sandboxed import keep_sandbox
from patchgrad.runs.session import sentence
from patchgrad.runs.trackers.status import Status
from patchgrad.store import Run
from patchgrad.tasks.sets import load_repairs, load_set
from patchgrad.values import Advanced, Group, Note, PhaseBegan, Report, Rollout, Task, digest

ANSWER = 600.0  # seconds that an endpoint has for one answer, tries included
SCORERS: dict[str, Callable[[Sandboxes], Scorer]] = {"visible tests": VisibleTests}


def measure(
    evaluation: Evaluation,
    tracker: Tracker,
    out: Run | None = None,
    tasks: Sequence[Task] | None = None,
    registry: Registry = BY_NAME,
    refuse: Refuse = stop,
    cluster: str = "",
) -> Report:
    """Measure; the tasks are those of the set that the evaluation names, unless others are given.

    Where `out` is a run's folder it keeps every turn, attempt, prediction and the report. The agent's parts are the `registry`'s. A row of
    the set that is no task, and a task that cannot be opened or graded, go to `refuse`; where that goes on, attempts at it are broken.
    With a `cluster` attempts are made on its hosts, and the policy draws here.
    """
    made = partial(_harness, evaluation, registry, refuse, cluster)

    def work(told: Tracker, over: Callable[[Coroutine[Any, Any, Report]], Coroutine[Any, Any, Report]]) -> Report:
        chosen = tasks_of(evaluation, refuse) if tasks is None else tasks
        with _afforded(evaluation):
            return run_to_end(lambda: over(_measure(evaluation, told, out, chosen, made)))

    if out is None:
        return work(tracker, lambda whole: whole)
    with Status(out.folder, tracker) as status:  # from the beginning on, so that a process before this one is not taken for it
        return work(status, status.over)


def _afforded(evaluation: Evaluation) -> AbstractContextManager[None]:
    if evaluation.remote:  # an endpoint is measured without torch, and its memory is its own
        return nullcontext()
    from patchgrad.runs.build.measured import afforded

    return afforded(evaluation)


async def _measure(
    evaluation: Evaluation,
    tracker: Tracker,
    out: Run | None,
    tasks: Sequence[Task],
    made: Callable[[Journal, Tracker], Harness],
) -> Report:
    if out is not None:
        out.rollouts.rows()  # asks for what tables need before hours of work, and not after
    policy = await policy_of(evaluation, tracker)
    try:
        harness = made(MemoryJournal() if out is None else out.journal, tracker)
        try:
            if out is not None:
                out.tasks.add(tasks)
                keep_sandbox(out, harness.sandboxes, tracker)
            tracker.event(PhaseBegan(f"evaluate {evaluation.title}", len(tasks) * evaluation.evaluation.attempts))
            groups, report = await assess(harness, policy, tasks, evaluation, evaluation.title)
        finally:
            await harness.executor.close()
            await harness.sandboxes.close()
    finally:
        policy.close()
    report = _told(report, evaluation, tasks, policy)
    if out is not None:
        _keep(out, groups, report)
    return report


def _harness(evaluation: Evaluation, registry: Registry, refuse: Refuse, cluster: str, journal: Journal, tracker: Tracker) -> Harness:
    """What its attempts are made with: the agent, fresh sandboxes, and who makes them."""
    agent, sandbox = evaluation.agent, evaluation.sandbox
    grader = Grader(harnesses.sandboxes(sandbox, registry), _solutions(evaluation))
    harness = each_apart(harnesses.harness(agent, sandbox, grader, journal, partial(_seen, tracker), registry), refuse)
    if not cluster:
        return harness
    tracker.event(PhaseBegan(f"look for the hosts of {cluster}", 1))
    code = files_of(acting_parts(agent, sandbox), registry)
    return replace(harness, executor=harnesses.spread(cluster, sandbox.concurrency, code))


def _seen(tracker: Tracker, rollout: Rollout) -> None:
    tracker.event(Advanced(1, {"solved": rollout.solved, "broken": rollout.broken}))
    tracker.event(Note(sentence(rollout)))


def _keep(out: Run, groups: Sequence[Group], report: Report) -> None:
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    out.rollouts.write("evaluate", 0, rollouts)
    out.results.write_reports([report])
    out.results.write_predictions(report.name, rollouts)
    write_runs(out.folder / "swebench", report.name, groups)


async def assess(
    harness: Harness, policy: Policy, tasks: Sequence[Task], setting: Recipe | Evaluation, name: str
) -> tuple[list[Group], Report]:
    """Every attempt of one evaluation, and its report."""
    choice, agent = setting.evaluation, setting.agent
    budget, started = agent.budget(choice.limits), time.monotonic()
    settings = AttemptSettings(budget, Resolved(), setting.seed, replace(choice.sampling, purpose="evaluation"))
    groups = await collect_groups(harness, policy, tasks, choice.attempts, settings, f"evaluate/{name}")
    scores, about = None, dict[str, str]()
    if choice.best_of:
        scores, abstained = await _scores(harness, SCORERS[choice.best_of](harness.sandboxes), groups)
        about["best_of"] = choice.best_of + (f" (which abstained on {abstained} of {len(groups)} tasks)" if abstained else "")
    limits = {"turns": budget.turns, "context": budget.context, "action_tokens": budget.action_tokens, "seconds": budget.seconds}
    limits |= {"format_errors": budget.format_errors, "repeats": budget.repeats, "announced": budget.announced}
    limits |= {"window": agent.window, "observation": agent.longest}
    spent, sampling = time.monotonic() - started, choice.told
    return groups, summarise(name, groups, Measured(choice.drawn, spent, limits, sampling, about), scores)


async def _scores(harness: Harness, scorer: Scorer, groups: Sequence[Group]) -> tuple[dict[str, list[float]], int]:
    """A score for each attempt by task, all alike where the scorer abstains, and on how many tasks it did."""
    found = {task: scores async for task, scores in harness.executor.map(f"{__name__}:score", scorer, groups)}
    sizes = {group.task.id: len(group.rollouts) for group in groups}
    abstained = sum(scores is None for scores in found.values())
    return {task: scores if scores is not None else [0.0] * sizes[task] for task, scores in found.items()}, abstained


async def score(scorer: Scorer, group: Group) -> tuple[str, list[float] | None]:
    """The scores of the attempts at one task."""
    return group.task.id, await scorer(group.task, [rollout.trajectory for rollout in group.rollouts])


def tasks_of(evaluation: Evaluation, refuse: Refuse = stop) -> list[Task]:
    """The tasks that are named, in an order that is the seed's; `ConfigError` where there is none. A row that is none goes to `refuse`."""
    choice = evaluation.tasks
    if not choice.folder:
        raise ConfigError("The evaluation names no tasks: set tasks.folder to a set's folder.")
    found = load_set(Path(choice.folder), choice.level, refuse)
    kept = [task for task in found if choice.split in ("", task.tags.get("split", ""))]
    if not kept:
        there = ", ".join(sorted({task.tags.get("split", "") or "none" for task in found})) or "no task at all"
        raise ConfigError(f"{choice.folder} has no tasks of the split {choice.split!r}; there are: {there}.")
    return sorted(kept, key=lambda task: digest(str(evaluation.seed), task.id))[: choice.count or None]


def _solutions(evaluation: Evaluation) -> dict[str, str]:
    """The patches that solve the tasks, where these come from a set; whoever read its tasks has told of rows that are none."""
    folder = evaluation.tasks.folder
    return load_repairs(Path(folder), lambda error: None) if folder and not evaluation.tasks.generated else {}


async def policy_of(evaluation: Evaluation, tracker: Tracker) -> Policy:
    """The policy that an evaluation names: a model in this process, or a server that is asked whether it answers."""
    choice = evaluation.evaluation
    if evaluation.remote:
        tracker.event(PhaseBegan(f"ask {evaluation.policy}", 1))  # its first answer may take minutes
        chat = Chat(evaluation.policy, evaluation.model, os.environ.get(KEY, ""), seconds=min(ANSWER, choice.limits.seconds))
        return await EndpointPolicy.open(chat, context=choice.limits.context, sampling=choice.sampling)
    from patchgrad.runs.build.measured import opened

    return opened(evaluation)


def _told(report: Report, evaluation: Evaluation, tasks: Sequence[Task], policy: Policy) -> Report:
    """The report with what its numbers are of: the policy, the tasks by name and content, the prompts, and the sampling as sent."""
    content = digest(*sorted(task.digest() for task in tasks))[:16]
    folder, prompts = evaluation.tasks.folder or "held out", evaluation.agent.prompts
    about, sampling = {"policy": evaluation.policy, "tasks": folder, "content": content, "prompts": prompts}, report.sampling
    if isinstance(policy, EndpointPolicy):
        about |= {"model": evaluation.model, "dialect": policy.dialect.name}
        sent = policy.dialect.parameters(evaluation.evaluation.sampling)
        sampling = {name: number for name, number in sampling.items() if name in sent}
    if evaluation.protocol:
        about["protocol"] = evaluation.protocol
    return replace(report, sampling=sampling, about={**about, **report.about})
