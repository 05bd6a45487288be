"""Attempts of ours behind the environments that TRL's GRPO with tools asks for: TRL says a turn, the agent's answer comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from patchgrad.contracts import Finish
from patchgrad.errors import ContextFault
from patchgrad.grading import Grader
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes import Recipe
from patchgrad.rollouts.attempts import NEUTRAL, derive_seed, rewarded, run_attempt
from patchgrad.rollouts.conversations import first_step
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.journals import NullJournal
from patchgrad.runs.algorithms import with_length_penalty
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.tasks import run_tasks
from patchgrad.values import Action, Attempt, Ids, Message, Rollout, Sampling, Task, Verdict, floats

T = TypeVar("T")
OVER = " over" * 4096  # more than any context: TRL drops it, and lets its attempt end as it is
CUT = "<cut>"  # in front of what follows a turn that has no end, which ours puts in
FOREVER = 86_400.0  # all attempts of a generation wait for the slowest: a limit of seconds would be one of TRL's batch


class Relay:
    """A policy whose actions somebody else says: `asked` gets what the agent tells it, `said` the answer.

    Once it is closed every action is refused, which ends an attempt as a full context does; an attempt that begins again, as ours do after
    a sandbox broke, closes it, since whoever speaks cannot begin again.
    """

    version = 0

    def __init__(self, tokenizer: ChatTokenizer, context: int) -> None:
        self.tokenizer, self.context = tokenizer, context
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.closed = asyncio.Event()
        self._content, self._begun = "", False

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        if previous is None and self._begun:
            self.closed.set()
        self._content, self._begun = messages[-1].content, True
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        if not self.closed.is_set():
            self.asked.put_nowait(self._content)
        answer, closed = asyncio.ensure_future(self.said.get()), asyncio.ensure_future(self.closed.wait())
        await asyncio.wait({answer, closed}, return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        if not answer.done():
            answer.cancel()
            raise ContextFault("there is no more room for this attempt")
        text = answer.result()
        spelled = self.tokenizer.action(text)
        return Action(spelled, floats([0.0] * len(spelled)), 0, text, "stop")

    def release(self, session: str) -> None:
        """It keeps nothing between turns."""

    def close(self) -> None:
        self.closed.set()


class Bench:
    """The recipe, its tasks, and a loop of its own in which sandboxes live; `done` are the attempts of the generation."""

    def __init__(self, recipe: Recipe, base: Path, archives: Path) -> None:
        self.recipe, self.stage = recipe, recipe.stages[0]
        self.tasks = run_tasks(recipe, archives).train
        self.tokenizer = ChatTokenizer.load(base)
        self.begun, self.done = 0, list[Rollout]()
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self.harness: Harness = self.wait(self._made())

    async def _made(self) -> Harness:
        choice = self.recipe.sandbox
        grader = Grader(harnesses.sandboxes(choice))
        return harnesses.harness(self.recipe.agent, choice, grader, NullJournal(), seen=lambda rollout: None)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Done in the sandboxes' loop, and waited for."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def elsewhere(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for who is in another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def first(self, number: int) -> str:
        """What an attempt at this task is told first."""
        said = asyncio.run(first_step(self.harness.agent, self.tasks[number].instruction))
        return "" if isinstance(said, Finish) else said.messages[0].content


def environment(bench: Bench) -> type:
    """What TRL makes one of for each attempt of a generation."""
    stage, recipe = bench.stage, bench.recipe
    budget = replace(recipe.agent.budget(stage.limits), seconds=FOREVER)
    reward = with_length_penalty(harnesses.reward(recipe.reward), stage.reward, stage.limits.turns)

    class Terminal:
        """An attempt at one task: whole turns in, what the agent is told out."""

        def reset(self, number: int, **_: Any) -> None:
            name = f"trl/{bench.begun}"
            bench.begun += 1
            bench.wait(self._begin(Attempt(bench.tasks[number], name, derive_seed(recipe.seed, name), budget, NEUTRAL)))

        async def say(self, text: str, cut: bool) -> str:
            """Takes a turn.

            Args:
                text: The whole turn: a thought, and a command in its block.
                cut: Whether it was cut before its end.

            Returns:
                What the agent is told.
            """
            told = await bench.elsewhere(self._answered(text))
            return CUT + told if cut else told

        async def get_reward(self) -> float | None:
            rollout = await bench.elsewhere(self._ended())
            bench.done.append(rollout)
            return None if rollout.broken else rollout.reward.value

        async def _begin(self, item: Attempt) -> None:
            self._relay = Relay(bench.tokenizer, stage.limits.context)
            self._first = True
            self._episode = asyncio.create_task(self._made(item))

        async def _made(self, item: Attempt) -> Rollout:
            graded = await run_attempt((replace(bench.harness, grade=self._graded), self._relay), item)
            return rewarded(item.task, graded, reward)

        async def _graded(self, task: Task, submission: str) -> Verdict:
            self._relay.asked.put_nowait(OVER)  # TRL need not wait for the tests
            return await bench.harness.grade(task, submission)

        async def _answered(self, text: str) -> str:
            if self._first:  # what it is told first stands in the prompt
                await self._heard()
                self._first = False
            self._relay.said.put_nowait(text)
            return await self._heard()

        async def _heard(self) -> str:
            asked, closed = asyncio.create_task(self._relay.asked.get()), asyncio.create_task(self._relay.closed.wait())
            await asyncio.wait({asked, closed, self._episode}, return_when=asyncio.FIRST_COMPLETED)
            closed.cancel()
            if asked.done():
                return asked.result()
            asked.cancel()
            return OVER

        async def _ended(self) -> Rollout:
            self._relay.closed.set()
            return await self._episode

    return Terminal
