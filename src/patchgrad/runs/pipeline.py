"""The course of a run: base policy, rejection fine-tuning, stages of RL with a refresh between them, evaluation after each.

A course is a list of steps. After each one weights, optimiser, curriculum and position are committed together, so that a run that was
interrupted goes on after its last whole step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from patchgrad.contracts import Extend, Progress, Sandboxes, Score
from patchgrad.errors import TrainingStopped
from patchgrad.grading import Grader
from patchgrad.grading.rewards import Resolved
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.branching import Forking
from patchgrad.learning.curricula import Pool, Prefixes
from patchgrad.learning.loop import iterate
from patchgrad.networks import folder as folders
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.vllm import VllmPolicy
from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.recipe import Recipe
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import Stage
from patchgrad.rollouts.attempts import from_the_beginning
from patchgrad.rollouts.budget import Budget
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import NEUTRAL, Harness
from patchgrad.runs.algorithms import algorithm, imitation, shaped
from patchgrad.runs.build import an_agent, journalled, once, sentence
from patchgrad.runs.demonstrations.demonstrator import shows
from patchgrad.runs.demonstrations.lessons import (
    Lesson,
    a_policy,
    a_reference,
    a_trainer,
    demonstrate,
    fresh_network,
    learn_tokenizer,
    open_model,
    warm_up,
)
from patchgrad.runs.guards import Watch, figures
from patchgrad.runs.measure import assess
from patchgrad.runs.probe import probe
from patchgrad.runs.record import errors, measured
from patchgrad.store import Run
from patchgrad.tasks.evaluation_sets import fifty
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant, cosine
from patchgrad.values import Group, Ids, Report, Rollout, Task, digest

DRILL = 12  # turns: a look and eleven edits
FIRST = 60  # episodes spelled in bytes, from which the tokenizer learns its words
PROBED, PROBE_TOKENS = 16, 48  # actions of the sampler's probe, and the tokens of each


@dataclass(frozen=True, slots=True)
class Step:
    """One unit of work that is done wholly or not at all; one that is `needless` when its turn comes is left out."""

    name: str
    act: Callable[[], Awaitable[None]]
    needless: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Assigned:
    """The tasks of a run: to train on, to measure with, and, by kinds, for the demonstrator to show how to work on, if there is one."""

    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    lessons: tuple[tuple[Task, ...], ...] = ()


class Pipeline:
    """One run of a recipe over its tasks; `travel` does what is left of it.

    The demonstrator shows how to work on `lessons`: synthetic tasks, and, where those to train on are others, planted ones among these.
    """

    def __init__(
        self,
        recipe: Recipe,
        tasks: Assigned,
        run: Run,
        progress: Progress,
        sandboxes: Sandboxes,
    ) -> None:
        self.recipe, self.train, self.held_out, self.lessons = recipe, tasks.train, tasks.held_out, tasks.lessons
        self.run, self.progress = run, progress
        self.agent = an_agent(recipe.agent)
        self.harness = once(
            Harness(self.agent, sandboxes, Grader(sandboxes).grade, LocalExecutor(recipe.sandbox.concurrency)), recipe.sandbox
        )
        self.pool = Pool(self.train, recipe.seed)
        self.prefixes = Prefixes(run.recall)
        self.reports: list[Report] = []
        self.watch = Watch(recipe.guards)
        self.minutes = 0.0
        self.kept: list[str] = []
        self._policy: EmbeddedPolicy | VllmPolicy | None = None
        self._trainer: LocalTrainer | None = None

    # --- the plan ------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        """Every step in order; the same recipe gives the same list, so a position in it is a place to resume."""
        recipe = self.recipe
        steps = [Step("base", self._base), Step("evaluate-base", partial(self._evaluate, "base"))]
        steps += [Step(f"rft-{i}", partial(self._rft, i)) for i in range(recipe.rft.rounds)]
        if recipe.rft.rounds:
            steps.append(Step("evaluate-rft", partial(self._evaluate, "+ RFT", recipe.rft if recipe.stages else None)))
        for number, stage in enumerate(recipe.stages, 1):
            ended = partial(self._plateaued, stage)
            first, *rest = (Step(f"stage{number}-{i}", partial(self._rl, number, stage, i), ended) for i in range(stage.iterations))
            steps += [replace(first, needless=lambda: False), *rest]
            middle = stage if number < len(recipe.stages) else None
            steps.append(Step(f"evaluate-stage{number}", partial(self._evaluate, f"+ stage {number} RL", middle)))
        if recipe.evaluation.after == "last":  # the others still say which checkpoints are kept
            steps = [replace(s, act=_nothing) if s.name.startswith("evaluate") and s is not steps[-1] else s for s in steps]
        return steps

    async def complete(self) -> None:
        """Do the steps that are not done yet; commit after each."""
        done = self._restore()
        self.run.write_tasks((*self.train, *self.held_out))
        for position, step in enumerate(self.steps()[done:], done + 1):
            if step.needless():
                continue
            started = time.monotonic()
            await step.act()
            self.minutes += (time.monotonic() - started) / 60
            self._commit(position, step)
        self.progress.table(self.reports)

    def close(self) -> None:
        """Ends what a policy has started."""
        if isinstance(self._policy, VllmPolicy):
            self._policy.close()

    def _commit(self, position: int, step: Step) -> None:
        """The policies of the table are kept: base, after RFT, and the last of each stage."""
        previous = self.run.state().get("checkpoint")
        name = step.name
        if previous and step.name.startswith("evaluate"):
            name = previous
            self.kept.append(name)
        else:
            self.run.checkpoint(step.name, self._save)
        state = {"position": position, "step": step.name, "checkpoint": name, "kept": self.kept}
        self.run.save_state({**state, "pool": self.pool.state(), "prefixes": self.prefixes.state(), "minutes": self.minutes})
        if previous and previous not in (name, *self.kept):
            self.run.discard(previous)

    def _save(self, folder: Path) -> None:
        self.trainer.save(folder)
        self.policy.tokenizer.save(folder)

    def _restore(self) -> int:
        state = self.run.state()
        if not state:
            return 0
        self.pool.restore(state["pool"])
        self.prefixes.restore(state["prefixes"])
        self.minutes, self.kept = state["minutes"], list(state["kept"])
        self.reports = self.run.reports()
        self.watch = Watch(self.recipe.guards, [figures(row) for row in self.run.metrics()])
        checkpoint = self.run.folder / "checkpoints" / state["checkpoint"]
        adapted = self.recipe.optimiser.rank > 0  # adapters go back onto the model that they were made for
        self._trainer, self._policy = open_model(self.recipe.policy.model if adapted else checkpoint, self.recipe)
        self.trainer.load(checkpoint)
        self.policy.load(self.trainer.weights(), self.trainer.version)
        return int(state["position"])

    @property
    def policy(self) -> EmbeddedPolicy | VllmPolicy:
        assert self._policy is not None, "the base step makes the policy"
        return self._policy

    @property
    def trainer(self) -> LocalTrainer:
        assert self._trainer is not None, "the base step makes the trainer"
        return self._trainer

    # --- steps ---------------------------------------------------------------------------------

    async def _base(self) -> None:
        """A model of the user's, or a network that a warm-up on the demonstrator's demonstrations makes."""
        recipe, warmup = self.recipe, self.recipe.warmup
        if recipe.policy.model:
            self._trainer, self._policy = open_model(recipe.policy.model, recipe)
            return
        letters = ChatTokenizer.train([], 300)
        self.progress.stage("first demonstrations, for the tokenizer", FIRST)
        lesson = Lesson("first", FIRST, warmup.turns, graded=True)
        first = await demonstrate(recipe, self.lessons, self._harness(), letters, lesson, self._seen)
        own = {task.id: task for kind in (*self.lessons, self.train) for task in kind}
        tokenizer = learn_tokenizer(recipe, tuple(own.values()), first, letters)
        shown = []
        lessons = (
            Lesson("looks", warmup.first_turns, 1, "look"),
            Lesson("drills", warmup.edit_drills, DRILL, "drill"),
            Lesson("demonstrations", warmup.demonstrations, warmup.turns),
        )
        for lesson in lessons:
            self.progress.stage(lesson.label, lesson.count)
            shown += await demonstrate(recipe, self.lessons, self._harness(), tokenizer, lesson, self._practised)
        held_out = {task.tags.get("broken_line", "").strip() for task in self.held_out} - {""}
        shown = [rollout for rollout in shown if not shows(rollout, held_out)]  # a wrong edit may happen to write a held-out bug
        self.run.write_rollouts("demonstrations", 0, shown)
        network = fresh_network(recipe, tokenizer, shown)
        self._trainer = a_trainer(network, recipe)
        self.progress.stage("warm-up", warmup.epochs * -(-len(shown) // warmup.batch))
        told = lambda update: self.progress.advance(loss=update.metrics["loss"])  # noqa: E731
        with self._trainer.rounding(recipe.optimiser.imitation):
            await asyncio.to_thread(warm_up, recipe, shown, self._trainer, told)
        self._trainer.freeze(recipe.optimiser.frozen)
        self._policy = a_policy(network, tokenizer, recipe)
        self.policy.load(self.trainer.weights(), self.trainer.version)  # a warm-up has taken steps: what is resumed here says so too

    async def _evaluate(self, name: str, trained: Rft | Stage | None = None) -> None:
        """The policy on all held-out tasks; where it is not the last one, `trained` is the phase that made it."""
        choice = self.recipe.evaluation.under(trained)
        self.progress.stage(f"evaluate {name}", len(self.held_out) * choice.attempts)
        groups, report = await self._assessed(self.held_out, name, choice)
        report = replace(report, seconds=self.minutes * 60 + report.seconds)
        self.reports = [*(r for r in self.reports if r.name != name), report]
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        self.run.write_rollouts(f"evaluate-{len(self.reports)}", 0, rollouts)
        self.run.write_reports(self.reports)
        self.run.write_predictions(f"patchgrad {self.recipe.name} {name}", rollouts)
        self.progress.table(self.reports)

    async def _rft(self, round_: int) -> None:
        rft = self.recipe.rft
        budget = Budget(rft.turns, rft.context, self.recipe.agent.action_tokens, rft.seconds, self.recipe.agent.format_errors)
        pack, workers = self.recipe.optimiser.micro_batch_tokens, self.recipe.workers
        plan = IterationSizes(rft.tasks, rft.attempts, budget, Resolved(), rft.batch, pack, workers, rft.epochs, self._scheduled)
        self.trainer.reset_optimiser()
        self.progress.stage("rejection fine-tuning", rft.tasks * rft.attempts)
        row, harness = imitation(rft), self._harness()
        if rft.demonstration and not round_:  # it is for the base model, which never saw the protocol
            row, harness = imitation(rft, self._beginning), replace(harness, agent=replace(self.agent, demonstration=True))
        await self._iterate("rft", round_, row, plan, harness)

    def _beginning(self, task: Task) -> Ids:
        """The first prompt of an attempt, as RL and evaluations give it."""
        said = self.agent.prompt(task.instruction, ())
        assert isinstance(said, Extend), "an attempt begins with a prompt"
        return self.policy.encode(said.messages, None)

    async def _rl(self, number: int, stage: Stage, iteration: int) -> None:
        self.trainer.schedule = constant(stage.lr * (1 - stage.decay * iteration / stage.iterations))
        if iteration == 0:
            self.trainer.reset_optimiser()
            if stage.refresh_before:
                stay = len(self.pool.kept())
                self.pool = self.pool.refreshed()
                which = "those solved sometimes but not mostly" if stay else "as none was solved sometimes but not mostly"
                self.progress.say(f"refresh: {len(self.pool)} of {len(self.train)} tasks stay, {which}")
            self.pool = self.pool.part(stage.pool) if stage.pool else self.pool
            self.pool.begin()
        plan = self._planned(stage)
        attempts = stage.attempts + stage.forks * stage.continuations
        self.progress.stage(f"stage {number}, iteration {iteration + 1} of {stage.iterations}", stage.tasks * attempts)
        self.policy.training = stage.top_p == 1
        harness = replace(self._harness(), sampling=replace(NEUTRAL, top_p=stage.top_p))
        try:
            await self._iterate(f"stage{number}", iteration, algorithm(stage, self._reference(stage)), plan, harness, stage)
        finally:
            self.policy.training = True
        if self._plateaued(stage):
            self.progress.say(f"stage {number} ends: Pass@1 has not risen over the last {stage.plateau} iterations")

    def _planned(self, stage: Stage) -> IterationSizes:
        optimiser, agent, prefixed = self.recipe.optimiser, self.recipe.agent, stage.starts == "prefixes"
        return IterationSizes(
            stage.tasks,
            stage.attempts,
            Budget(stage.turns, stage.context, agent.action_tokens, stage.seconds, agent.format_errors),
            shaped(stage.length_threshold, stage.turns, stage.length_weight),
            stage.minibatch,
            optimiser.micro_batch_tokens,
            self.recipe.workers,
            start=partial(self.prefixes.start, turns=stage.turns, context=stage.context) if prefixed else from_the_beginning,
            forking=Forking(stage.forks, stage.continuations, stage.filter_on) if stage.forks else None,
        )

    def _plateaued(self, stage: Stage) -> bool:
        return bool(stage.plateau) and self.pool.plateaued(stage.plateau)

    def _scheduled(self, steps: int) -> None:
        """The learning rate of a round of fine-tuning, which is so many steps long."""
        rft = self.recipe.rft
        warmup = min(rft.warmup, steps // 5)
        self.trainer.schedule = cosine(rft.lr, steps, warmup) if rft.schedule == "cosine" else constant(rft.lr, warmup)

    def _reference(self, stage: Stage) -> Score | None:
        """The policy that RL began with, where the stage's kl_penalty pulls to it; its checkpoint is one of the table's."""
        if not stage.kl_penalty.weight or stage.kl_penalty.to != "reference":
            return None
        names = [step.name for step in self.steps() if not step.name.startswith("evaluate")]
        began = next(before for before, name in pairwise(names) if name.startswith("stage"))
        return a_reference(folders.load(self.run.folder / "checkpoints" / began), self.recipe).logprobs

    async def _iterate(
        self, phase: str, iteration: int, row: Algorithm, plan: IterationSizes, harness: Harness, stage: Stage | None = None
    ) -> None:
        label, seed, began = f"{phase}/{iteration}", self.recipe.seed, time.monotonic()
        probed = await self._probed(plan.budget, int(digest(str(seed), label)[:8], 16))
        _stop(self._alarmed(Watch(self.recipe.guards), probed))  # before an iteration is spent on it
        products = self.recipe.optimiser
        with self.trainer.rounding(products.precision if stage else products.imitation):
            done = await iterate(harness, self.policy, self.pool, self.trainer, row, plan, label, seed, self._seen)
        for group in done.groups if harness.agent == self.agent else ():  # nobody goes on after another agent's prompt
            self.prefixes.observe(group)
        self.run.write_rollouts(phase, iteration, [r for group in done.groups for r in group.rollouts])
        told = measured(done, plan.attempts, compared=harness.agent == self.agent)
        told["seconds"]["besides"] = time.monotonic() - began - done.usage["wall"]
        reason = self._alarmed(self.watch, {"phase": phase, **told})
        if not reason:
            told |= await self._between(phase, iteration, stage)
        self.run.write_metrics({"phase": phase, "iteration": iteration, **told, **probed})
        _stop(reason)

    async def _between(self, phase: str, iteration: int, stage: Stage | None) -> dict[str, float]:
        """How the policy does on held-out tasks after this iteration of a stage, where the recipe asks for it."""
        if stage is None or not self.recipe.evaluation.every or (iteration + 1) % self.recipe.evaluation.every:
            return {}
        choice = self.recipe.evaluation.under(stage if stage is not self.recipe.stages[-1] else None)
        sample = fifty(self.held_out) or self.held_out[: choice.sample]
        self.progress.stage(f"{phase}, iteration {iteration + 1}: held-out tasks", len(sample) * choice.attempts)
        groups, report = await self._assessed(sample, f"{phase}/{iteration}", choice)
        return {
            "held_out_pass_at_1": report.pass_at_1.mean,
            "held_out_pass_at_1_se": report.pass_at_1.error,
            "held_out_pass_at_k": report.pass_at_k.mean,
            "held_out_pass_at_k_se": report.pass_at_k.error,
            "held_out_submitted": report.submitted.mean,
            "held_out_turns": report.turns,
            **{f"held_out_{name}": error for name, error in errors(groups).items()},
        }

    async def _assessed(self, tasks: Sequence[Task], name: str, choice: EvaluationChoice) -> tuple[list[Group], Report]:
        """An evaluation under its own sampling, which may be another than training's."""
        self.policy.training = choice.sampling.neutral
        try:
            return await assess(self._harness(), self.policy, tasks, replace(self.recipe, evaluation=choice), name, self._seen)
        finally:
            self.policy.training = True

    async def _probed(self, budget: Budget, seed: int) -> dict[str, float]:
        """What a few actions say of the sampler: after the first prompts of some tasks, and at the end of the context."""
        prompts = [self.agent.prompt(task.instruction, ()) for task in self.train[:PROBED]]
        near = [self.policy.encode(said.messages, None) for said in prompts if isinstance(said, Extend)]
        tokens = min(self.recipe.agent.action_tokens, PROBE_TOKENS)
        room = budget.context - tokens
        far = np.resize(near[0], room)  # the prompt again and again
        seen = await probe(self.policy, self.trainer, [*(stream for stream in near if len(stream) <= room), far], tokens, seed)
        return {"sampling_z": seen.sampling_z, "probe_logprob_diff": seen.logprob_diff}

    def _alarmed(self, watch: Watch, told: Mapping[str, Any]) -> str:
        """Says what is beyond a guard's bound; why the run has to end, or nothing."""
        seen, reason = watch.see(figures(told))
        for alarm in seen:
            self.progress.say(f"guard: {alarm.sentence}")
        return reason

    # --- small parts ---------------------------------------------------------------------------

    def _harness(self) -> Harness:
        return journalled(self.harness, self.run)

    def _seen(self, rollout: Rollout) -> None:
        self.progress.advance(solved=rollout.solved, turns=float(len(rollout.trajectory.turns)))
        self.progress.say(sentence(rollout))

    def _practised(self, rollout: Rollout) -> None:
        self.progress.advance(turns=float(len(rollout.trajectory.turns)))
        self.progress.say(sentence(rollout))


async def _nothing() -> None:
    """A phase that is not measured."""


def _stop(reason: str) -> None:
    if reason:
        raise TrainingStopped(f"A guard stopped the run: {reason}. What was committed stands; the bounds are the recipe's `guards`.")
