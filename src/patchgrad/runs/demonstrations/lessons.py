"""Demonstrations by a scripted policy through the ordinary loop, on tasks drawn from the seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Literal

from patchgrad.contracts import Journal
from patchgrad.grading.rewards import Resolved
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.recipe import Recipe
from patchgrad.rollouts.attempts import NEUTRAL, Graded, rewarded, run_attempt
from patchgrad.rollouts.harness import Workbench
from patchgrad.runs.demonstrations.demonstrator import Demonstrator, drill, look
from patchgrad.runs.demonstrations.idioms import Blocks, spoken
from patchgrad.runs.demonstrations.known_bugs import placed
from patchgrad.runs.session import RunContext
from patchgrad.values import Attempt, Budget, Ending, Rollout, Snapshot, Task, Turn, Verdict, digest

Practice = Literal["whole", "edits", "first turn"]
PRACTICE: dict[Practice, Callable[[Task, int], Task]] = {
    "whole": lambda task, _: task,
    "edits": lambda task, _: drill(task),
    "first turn": look,
}
ACTION_TOKENS = 256
SHORT = 0.25  # of the demonstrations have fewer turns than they may, where the last ones are announced


@dataclass(frozen=True, slots=True)
class Lesson:
    """`count` episodes of at most `turns` turns.

    They are `whole` demonstrations; or `edits`, a look and eleven edits without tests; or the `first turn` alone, which opens the file that
    an issue of gibberish names. Imitation does not ask whether an episode succeeds, so it is graded only where its success rate is shown.
    """

    label: str
    count: int
    turns: int
    practice: Practice = "whole"
    graded: bool = False


@dataclass(frozen=True, slots=True)
class _Shared:
    """What every episode of a lesson is made with."""

    bench: Workbench
    recipe: Recipe
    tokenizer: ChatTokenizer
    lesson: Lesson


async def demonstrate(context: RunContext, tokenizer: ChatTokenizer, lesson: Lesson) -> list[Rollout]:
    """The episodes of a lesson, in the order in which their tasks were drawn."""
    recipe, harness = context.recipe, context.harness
    whole = lesson.practice == "whole"  # practice is opened as an issue says
    pools = [[task for task in kind if whole or placed(task)][: recipe.warmup.tasks] for kind in context.tasks.shown]
    drawn = dealt([pool for pool in pools if pool], lesson.count, random.Random(f"{lesson.label} {recipe.seed}"))
    told = recipe.agent.announced if lesson.turns > 1 else 0
    acting = replace(recipe.agent, action_tokens=ACTION_TOKENS, format_errors=0, repeats=0, announced=told)
    budget = acting.budget(AttemptLimits(lesson.turns, recipe.policy.context, 3600.0))
    practice = PRACTICE[lesson.practice]
    budgets: Iterable[Budget] = _ending_early(budget, lesson) if told and whole else repeat(budget)
    items = [
        Attempt(practice(task, before), f"{lesson.label}/{i}", i, each, NEUTRAL)
        for i, ((task, before), each) in enumerate(zip(drawn, budgets, strict=False))
    ]
    bench = replace(harness.workbench, journal=OnlyEnded(harness.journal), judges=())
    shared = _Shared(bench if lesson.graded else replace(bench, grade=_ungraded), recipe, tokenizer, lesson)
    tasks, shown = {item.id: item.task for item in items}, dict[str, Rollout]()
    async for graded in harness.executor.map(f"{__name__}:show", shared, items):
        rollout = rewarded(tasks[graded.trajectory.id], graded, Resolved())
        shown[rollout.trajectory.id] = rollout
        harness.seen(rollout)
    return [shown[item.id] for item in items]


def _ending_early(budget: Budget, lesson: Lesson) -> Iterator[Budget]:
    """The budget, for some with fewer turns, from two on: few episodes are so long that their last turns are announced."""
    chooser = random.Random(f"turns of {lesson.label}")
    while True:
        short = chooser.random() < SHORT
        yield replace(budget, turns=chooser.randint(min(2, budget.turns), budget.turns)) if short else budget


async def show(shared: _Shared, attempt: Attempt) -> Graded:
    """One episode."""
    recipe, tokenizer = shared.recipe, shared.tokenizer
    options, told = recipe.warmup.demonstrator, recipe.agent.repeats and spoken(recipe.agent) is Blocks
    demonstrator = Demonstrator(
        attempt.task,
        options if told else replace(options, repeats=0.0),  # who is not told of them learns nothing by them
        int(digest(attempt.id, str(recipe.seed))[:15], 16),
        tokenizer,
        recipe.policy.context,
        shared.lesson.practice == "edits",
        recipe.agent,
    )
    return await run_attempt((shared.bench, demonstrator), attempt)


class OnlyEnded:
    """A journal in which an episode that was interrupted is unknown: it begins again, since no turn tells what the demonstrator has
    tried.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def keeps(self) -> bool:
        return self._journal.keeps

    async def turn(self, attempt: str, turn: Turn) -> None:
        await self._journal.turn(attempt, turn)

    async def state(self, snapshot: Snapshot) -> None:
        await self._journal.state(snapshot)

    async def ending(self, attempt: str, ending: Ending) -> None:
        await self._journal.ending(attempt, ending)

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        turns, ending = await self._journal.recall(attempt, root)
        return (turns, ending) if ending else ((), None)

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        return await self._journal.snapshot(address, directory)

    def holds(self, address: str, attempt: str = "") -> bool:
        return self._journal.holds(address, attempt)


def dealt(pools: Sequence[Sequence[Task]], count: int, chooser: random.Random) -> list[tuple[Task, int]]:
    """So many tasks, each with how often it was dealt before: from each pool as likely as from the others, and none twice until all were.

    Of one pool of three tasks, seven: all three in some order, all three in another, and one, which comes with a 2.
    """
    hands: list[list[Task]] = [[] for _ in pools]
    before: Counter[str] = Counter()
    found = []
    for _ in range(count):
        which = chooser.randrange(len(pools))
        if not hands[which]:
            hands[which] = chooser.sample(pools[which], len(pools[which]))
        task = hands[which].pop()
        found.append((task, before[task.id]))
        before[task.id] += 1
    return found


async def _ungraded(task: Task, patch: str) -> Verdict:
    return Verdict(task.id, patch, (), ())
