"""Batches that begin before their turn: sampling runs ahead of training by a bounded number of publications.

A publication is what the policies sample under after an iteration. With a lag of n the attempts of iteration i may begin once the weights
after iteration i - n - 1 are published, so a turn that is trained in iteration i was drawn under one of the last n + 1 publications. Which
tasks an iteration trains is settled by the order in which they were drawn. So nothing ages out, nothing that is short comes first, and
which attempts are trained does not depend on how fast they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgrad.values import Group, Rollout, Task

Collect = Callable[["Batch"], Coroutine[Any, Any, list[Group]]]


@dataclass(slots=True)
class Batch:
    """The tasks of an iteration, by its label, and the version under which its attempts began; the attempts, where they are under way.

    Attempts that have ended are told when it is the iteration's turn.
    """

    label: str
    tasks: tuple[Task, ...]
    since: int
    attempts: asyncio.Task[list[Group]] | None = None
    untold: list[Rollout] = field(default_factory=list)
    tell: Callable[[Rollout], None] | None = None

    def ended(self, rollout: Rollout) -> None:
        """One of its attempts has."""
        self.untold.append(rollout)
        self.turn(self.tell)

    def turn(self, tell: Callable[[Rollout], None] | None) -> None:
        """From now on attempts that have ended are told at once."""
        self.tell = tell
        while tell and self.untold:
            tell(self.untold.pop(0))


@dataclass(slots=True)
class Ahead:
    """Batches that were begun and not trained yet, in their order, and the versions that were published before each iteration."""

    batches: list[Batch] = field(default_factory=list)
    published: list[int] = field(default_factory=list)

    def begin(self, labels: Sequence[str], draw: Callable[[], Sequence[Task]], version: int, collect: Collect) -> None:
        """Attempts of these iterations are under way from now on; tasks of those that are new are drawn."""
        if not self.published:
            self.published.append(version)
        for label in labels[len(self.batches) :]:
            self.batches.append(Batch(label, tuple(draw()), version))
        for batch, label in zip(self.batches, labels, strict=True):
            if batch.label != label:
                raise ValueError(f"{batch.label} was begun where {label} is next")
            if batch.attempts is None:
                batch.attempts = asyncio.create_task(collect(batch))

    async def take(self, tell: Callable[[Rollout], None]) -> list[Group]:
        """The groups of the next iteration, when all of its attempts have ended, of each of which is told."""
        attempts = self.batches[0].attempts
        if attempts is None:
            raise ValueError("nothing was begun")
        self.batches[0].turn(tell)
        groups = await attempts
        del self.batches[0]
        return groups

    def window(self, lag: int) -> list[int]:
        """The versions that may have drawn what is trained next: those of the last publications."""
        return self.published[-(lag + 1) :]

    def publish(self, version: int) -> None:
        """The policies sample under this version in the next iteration; it may be the one before."""
        self.published.append(version)

    async def close(self) -> None:
        """Nothing is under way, and nothing was begun; a new stage begins so."""
        running = [batch.attempts for batch in self.batches if batch.attempts is not None]
        for attempts in running:
            attempts.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self.batches.clear()
        self.published.clear()

    def state(self) -> dict[str, Any]:
        """As JSON: what was drawn, and under which versions."""
        told = [{"label": one.label, "tasks": [task.id for task in one.tasks], "since": one.since} for one in self.batches]
        return {"batches": told, "published": list(self.published)}

    @classmethod
    def restored(cls, state: Mapping[str, Any], tasks: Mapping[str, Task]) -> Ahead:
        """As `state()` tells; attempts go on when they are begun again."""
        batches = [Batch(one["label"], tuple(tasks[id] for id in one["tasks"]), one["since"]) for one in state["batches"]]
        return cls(batches, list(state["published"]))
