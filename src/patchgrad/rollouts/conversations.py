"""One attempt of an agent, whoever owns the loop: an agent of ours is asked anew after each turn, a program of others is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from patchgrad.contracts import Agent, AttemptAccess, Conversation, Extend, Finish, Program, Restart, Tool
from patchgrad.errors import ProgramFault
from patchgrad.rollouts.access import Alone
from patchgrad.values import Action, Ids, Segment, Task, Turn, stream_digest

Encode = Callable[[Extend | Restart, int, Action | None], Ids]


@dataclass(frozen=True, slots=True)
class Asked:
    """A conversation of an agent whose prompts are a pure function: nothing has to be kept between turns."""

    agent: Agent
    instruction: str

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.agent.tools

    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
        return self.agent.prompt(self.instruction, turns)

    async def close(self) -> None:
        """There is nothing to end."""


def conversing(agent: Agent | Program, instruction: str) -> Conversation:
    """A conversation about a task, whose words are all that an agent learns of it."""
    return agent.begin(instruction) if isinstance(agent, Program) else Asked(agent, instruction)


async def first_step(agent: Agent | Program, instruction: str) -> Extend | Restart | Finish:
    """What an attempt begins with. Raises `ProgramFault` for a program that asks in a sandbox alone."""
    conversation = conversing(agent, instruction)
    try:
        return await conversation.prompt((), Alone())
    finally:
        await conversation.close()


def goes_on(agent: Agent | Program) -> bool:
    """Can an attempt of the agent go on after turns that were taken already?"""
    return not isinstance(agent, Program) or agent.goes_on


def segments_of(agent: Agent | Program, task: Task, turns: Sequence[Turn]) -> tuple[Segment, ...]:
    """The turns of an attempt as the token streams that they form.

    An action says after which ids it was sampled: where these are its turn's context alone, it began a stream. Where it says nothing, an
    agent that is asked again says again where it began one; turns of a program are one stream then.
    """
    return streams(turns, [number for number in range(1, len(turns)) if _begins(agent, task, turns, number)])


def streams(turns: Sequence[Turn], begun: Sequence[int]) -> tuple[Segment, ...]:
    """The turns as streams, of which those after the first one begin at the turns of these numbers, counted from 0."""
    places = [0, *begun, len(turns)]
    return tuple(Segment(tuple(turns[first:last])) for first, last in pairwise(places)) if turns else ()


def _begins(agent: Agent | Program, task: Task, turns: Sequence[Turn], number: int) -> bool:
    turn = turns[number]
    if turn.action.origin is not None:
        return turn.action.origin.prefix == stream_digest(turn.context)
    return not isinstance(agent, Program) and isinstance(agent.prompt(task.instruction, tuple(turns[:number])), Restart)


async def go_on(conversation: Conversation, access: AttemptAccess, segments: Sequence[Segment], encode: Encode) -> None:
    """Takes a program through turns that were taken already; `ProgramFault` where it asks for something else than it did then.

    `encode(step, number, previous)` gives the ids that a step adds before the turn of this number, counted from 0.
    """
    turns = tuple(turn for segment in segments for turn in segment.turns)
    begins = {sum(len(one.turns) for one in segments[:number]) for number in range(len(segments))}
    for number, turn in enumerate(turns):
        step = await conversation.prompt(turns[:number], access)
        same = not isinstance(step, Finish) and isinstance(step, Restart) <= (number in begins)
        if isinstance(step, Finish) or not same:
            raise ProgramFault(f"the program does not ask before turn {number + 1} what it asked before")
        previous = None if number in begins else turns[number - 1].action
        if not np.array_equal(encode(step, number, previous), turn.context):
            raise ProgramFault(f"the program asks something else before turn {number + 1} than it did")
