"""An attempt as messages: what was said to the policy before each of its turns, held against the tokens that it was sampled after.

The agent is asked again what it says. A run knows the tokens that the policy has read, so where the run has a tokenizer each message is
proved: what encodes to other tokens is told as a fault of the attempt, and never exported as if it had been said. What a program of others
said is told from the tokens alone. A policy of text read what its contexts spell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from patchgrad.contracts import Agent, Finish, Program, Restart, Tokenizer
from patchgrad.errors import ConfigError, Refuse, StoreError, one_of_many
from patchgrad.policies.endpoint import framing
from patchgrad.recipes import Recipe
from patchgrad.rollouts.loop import announced
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.components.code import registry_of
from patchgrad.runs.reading import setting_of
from patchgrad.store import Run
from patchgrad.values import Action, Message, Rollout, Task, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was said to the policy, and the turn that it took. A context `begins` with some; those of a fork's beginning are `replayed`."""

    messages: tuple[Message, ...]
    turn: Turn
    begins: bool
    replayed: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """An attempt with what was said in it, where in the run it stands, and whether tokens prove the messages."""

    phase: str
    iteration: int
    rollout: Rollout
    exchanges: tuple[Exchange, ...]
    proved: bool


def conversations(run: Run, phase: str, refuse: Refuse) -> Iterator[Conversation]:
    """Those of a phase, or with `*` of all, in the order of the tables. An attempt that cannot be told goes to `refuse`."""
    tokenizer, agents = _tokenizer(run), cache(lambda: _agents(run))
    tables = dict.fromkeys(
        (row["phase"], row["iteration"]) for row in run.rollouts.rows(phase, columns=["phase", "iteration"], refuse=refuse)
    )
    if not tables:
        raise ConfigError(f"{run.folder} has no attempts of the phase {phase}." if phase != "*" else f"{run.folder} has no attempts yet.")
    for name, iteration in tables:
        for rollout in run.rollouts.read(name, iteration, refuse):
            with one_of_many(refuse):
                spelt = not any(turn.action.trainable for turn in rollout.trajectory.turns)
                exchanges = tuple(_spelt(rollout) if spelt else _exchanges(rollout, *agents(), tokenizer))
                yield Conversation(name, iteration, rollout, exchanges, tokenizer is not None and _of_tokens(rollout))


def _agents(run: Run) -> tuple[list[Agent | Program], int]:
    """The run's agent; and as it is with the demonstration that a recipe may put before its fine-tuning. Both announce so many turns."""
    setting, registry = setting_of(run), registry_of(run)
    shown = isinstance(setting, Recipe) and setting.rft.demonstration
    agents = [harnesses.agent(setting.agent, registry, demonstration=one) for one in ([False, True] if shown else [False])]
    return agents, setting.agent.announced


def _tokenizer(run: Run) -> Tokenizer | None:
    """Of the run's policies, which all have the same; nothing where no policy lies in the folder."""
    if not run.checkpoints.all():
        return None
    from patchgrad.policies.tokenizers.chat import ChatTokenizer

    return ChatTokenizer.load(run.checkpoints.find())


def _of_tokens(rollout: Rollout) -> bool:
    return all(turn.action.trainable for turn in rollout.trajectory.turns)


def _starts(trajectory: Trajectory) -> set[int]:
    """The turns, counted from 0, with which its streams begin."""
    return {sum(len(segment.turns) for segment in trajectory.segments[:number]) for number in range(len(trajectory.segments))}


def _spelt(rollout: Rollout) -> Iterator[Exchange]:
    """Those of a policy of text, whose contexts spell what was said to it."""
    trajectory, starts, previous = rollout.trajectory, _starts(rollout.trajectory), None
    for number, turn in enumerate(trajectory.turns):
        yield Exchange(
            tuple(framing.added(turn.context, None if number in starts else previous)), turn, number in starts, number < trajectory.replayed
        )
        previous = turn.action


def _exchanges(rollout: Rollout, agents: list[Agent | Program], last: int, tokenizer: Tokenizer | None) -> Iterator[Exchange]:
    turns, starts = rollout.trajectory.turns, _starts(rollout.trajectory)
    ours = [agent for agent in agents if not isinstance(agent, Program)]
    for number, turn in enumerate(turns):
        previous = None if number in starts else turns[number - 1].action
        said = _again(ours, rollout, number, number in starts, last)
        messages = next((one for one in said if _said(one, turn, previous, tokenizer)), None)
        if not ours:
            messages = _read(rollout.task, turns[:number], turn, tokenizer)
        if messages is None:
            raise StoreError(
                f"The attempt {rollout.trajectory.id} cannot be told: before turn {number + 1} its agent now says something else."
            )
        yield Exchange(messages, turn, number in starts, number < rollout.trajectory.replayed)


def _again(agents: list[Agent], rollout: Rollout, number: int, begins: bool, last: int) -> Iterator[tuple[Message, ...]]:
    """What agents may have said before a turn: with how many turns are left, or without, where these are among the `last` ones."""
    asked = [agent.prompt(rollout.task.instruction, rollout.trajectory.turns[:number]) for agent in agents]
    steps = [step for step in asked if not isinstance(step, Finish) and isinstance(step, Restart) <= begins]
    return (announced(step, last, left).messages for left in range(last + 1, 0, -1) for step in steps)


def _read(task: Task, before: Sequence[Turn], turn: Turn, tokenizer: Tokenizer | None) -> tuple[Message, ...]:
    """What a policy read before a turn of a program, which cannot be asked again."""
    if tokenizer is not None:
        return (Message("user", tokenizer.decode([int(token) for token in turn.context])),)
    return (Message("user", before[-1].observation.content if before else task.instruction),)


def _said(messages: tuple[Message, ...], turn: Turn, previous: Action | None, tokenizer: Tokenizer | None) -> bool:
    """Are these the tokens that came before the turn's action? Nobody knows without a tokenizer."""
    return tokenizer is None or np.array_equal(tokenizer.encode(messages, previous), turn.context)
