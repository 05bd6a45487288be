"""The base policy: a model of the user's, or a network that learns its first words from demonstrations by a scripted policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from patchgrad.contracts import TrainablePolicy, Trainer
from patchgrad.errors import ConfigError
from patchgrad.learning.curricula import Prefixes
from patchgrad.learning.stopping import in_thread
from patchgrad.networks import folder
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.runs.build import learner as learners
from patchgrad.runs.build.curriculum import curriculum
from patchgrad.runs.demonstrations.demonstrator import shows
from patchgrad.runs.demonstrations.known_bugs import ordinary_lines, wrong_lines
from patchgrad.runs.demonstrations.lessons import Lesson, demonstrate
from patchgrad.runs.demonstrations.warmup import another, fresh_network, learn_tokenizer, steps, taught, warm_up
from patchgrad.runs.phases.choice import validated
from patchgrad.runs.session import RunContext, Session, told
from patchgrad.values import Advanced, Estimate, Rollout, Update
from patchgrad.waiting import waiting_for

EDITS = 12  # turns: a look and eleven edits
FIRST = 60  # episodes spelled in bytes at most, from which the tokenizer learns its words


async def base(context: RunContext) -> Session:
    """The first session of a run."""
    recipe = context.recipe
    chosen, prefixes = curriculum(recipe, context.tasks.train, context.registry), Prefixes(context.run.journal.known)
    trainer, policy = await (_opened(context) if recipe.policy.model else _from_scratch(context))
    return Session(learners.learner(trainer, policy, chosen), chosen, prefixes)


async def _opened(context: RunContext) -> tuple[Trainer, TrainablePolicy]:
    """The user's model, warmed up where the recipe asks for it."""
    recipe = context.recipe
    trainer, policy = learners.open_model(recipe.policy.model, recipe, context.registry, context.cluster)
    if recipe.warms_up:
        shown = await _lessons(context, ChatTokenizer.load(folder.locate(recipe.policy.model)))
        context.run.rollouts.write("demonstrations", 0, shown)
        await _warmed(context, trainer, policy, shown)
        trainer.reset_optimiser()
        policy.load(trainer.weights(), trainer.version)
    return trainer, policy


async def _from_scratch(context: RunContext) -> tuple[Trainer, TrainablePolicy]:
    """A network of random weights after its warm-up."""
    recipe, registry = context.recipe, context.registry
    tokenizer = await _tokenizer(context)
    shown = await _lessons(context, tokenizer)
    context.run.rollouts.write("demonstrations", 0, shown)
    network = fresh_network(recipe, tokenizer, shown)
    warm = learners.local_trainer(network, recipe)
    policy = learners.policy(network, tokenizer, recipe, registry, context.cluster)
    await _warmed(context, warm, policy, shown)
    trainer = learners.trainer(warm.hand_over(), recipe, registry, recipe.optimiser.frozen, warm.version)
    policy.load(trainer.weights(), trainer.version)  # a warm-up has taken steps: what is resumed here says so too
    return trainer, policy


async def _warmed(context: RunContext, warm: Trainer, policy: TrainablePolicy, shown: Sequence[Rollout]) -> None:
    """Passes over the episodes until the policy solves what the recipe wants."""
    recipe, choice, shown = context.recipe, context.recipe.warmup, taught(context.recipe, shown)
    if not shown:
        raise ConfigError("No demonstration was solved, and the warm-up imitates those alone: raise warmup.demonstrator.skill.")

    def update(made: Update) -> None:
        context.tracker.event(Advanced(1, {"loss": made.metrics["loss"]}))

    for number in range(choice.passes):
        episodes = another(shown, recipe.seed, number) if number else shown
        context.begin("warm-up" if not number else f"warm-up, pass {number + 1}", steps(recipe, len(episodes)))
        with waiting_for("training"):
            await in_thread(warm_up, recipe, episodes, warm, update, 1 / 3 if number else 1.0)
        if choice.until == 0 or not context.tasks.validation:
            return
        policy.load(warm.weights(), warm.version)
        context.begin("measure the base policy", len(context.tasks.validation) * recipe.validation.attempts)
        solved = (await validated(context, policy, f"pass {number + 1}")).pass_at_1
        told = f"{100 * solved.mean:.1f} +- {100 * solved.error:.1f} % of validation tasks"
        context.note(f"after {warm.version} steps the base solves {told}")
        if reached(solved, choice.until):
            return


def reached(solved: Estimate, share: float) -> bool:
    """Is what was solved above this share by a standard error? Of several measurements the first lucky one would end the warm-up."""
    return solved.mean - solved.error >= share


async def _tokenizer(context: RunContext) -> ChatTokenizer:
    """A tokenizer that learns its words from the first demonstrations."""
    warmup, tasks = context.recipe.warmup, context.tasks
    letters = ChatTokenizer.train([], 300)
    count = min(FIRST, warmup.demonstrations)
    context.begin("first demonstrations, for the tokenizer", count)
    first = await demonstrate(context, letters, Lesson("first", count, warmup.turns, graded=True))
    own = {task.id: task for kind in (*tasks.shown, tasks.train) for task in kind}
    return learn_tokenizer(context.recipe, tuple(own.values()), first, letters)


async def _lessons(context: RunContext, tokenizer: ChatTokenizer) -> list[Rollout]:
    """Everything that is shown, but for what shows a bug that is held out: a wrong edit may happen to write it."""
    warmup, tasks = context.recipe.warmup, context.tasks
    graded = warmup.imitates == "solved"
    context = replace(context, harness=replace(context.harness, seen=partial(told, context.tracker, graded=graded)))
    shown: list[Rollout] = []
    # Attempts of the last two go by the names that their seeds are derived from.
    lessons = (
        Lesson("looks", warmup.first_turns, 1, "first turn"),
        Lesson("drills", warmup.edit_drills, EDITS, "edits"),
        Lesson("demonstrations", warmup.demonstrations, warmup.turns, graded=graded),
    )
    for lesson in lessons:
        if lesson.count:
            context.begin(lesson.label, lesson.count)
            shown += await demonstrate(context, tokenizer, lesson)
    held_out = wrong_lines(tasks.held_out) - ordinary_lines(task for kind in tasks.shown for task in kind)
    return [rollout for rollout in shown if not shows(rollout, held_out)]
