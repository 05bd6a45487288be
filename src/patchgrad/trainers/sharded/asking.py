"""What the ranks are asked of one network, and which of them computes what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchgrad.errors import TrainerFault
from patchgrad.trainers.sharded.launching import Launched
from patchgrad.trainers.sharded.rank import Part
from patchgrad.trainers.sharded.schedule import Step, schedule
from patchgrad.values import Batch


@dataclass(frozen=True, slots=True)
class Asking:
    """A network on ranks, by its number there.

    A micro-batch of more than `tokens` is shared by as many ranks as one of the sizes `allowed`. Where a rank fails,
    all of them end, and `TrainerFault` is raised.
    """

    launched: Launched
    network: int
    allowed: Sequence[int]
    tokens: int

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """The answers of all ranks, which are given the same."""
        return self._asked(method, [arguments] * self.launched.count, [])

    def steps(self, method: str, batch: Batch, *more: Any) -> list[Any]:
        """The answers of all ranks, each of which is given its part of every step through the batch's micro-batches."""
        plan, ranks = self.schedule(batch), range(self.launched.count)
        each = [([_part(batch, works, rank) for works in plan], *more) for rank in ranks]
        return self._asked(method, each, [[work.ranks for work in works] for works in plan])

    def schedule(self, batch: Batch) -> list[Step]:
        """The steps, which are the same for the same batch."""
        lengths = [len(one.tokens) for one in batch.micro_batches]
        return schedule(lengths, self.launched.count, self.allowed, self.tokens or max(lengths))

    def _asked(self, method: str, each: Sequence[tuple[Any, ...]], teams: Sequence[Sequence[range]]) -> list[Any]:
        try:
            return self.launched.ranks.call(self.network, method, each, teams)
        except TrainerFault:
            self.launched.close()
            raise


def _part(batch: Batch, works: Step, rank: int) -> Part:
    work = works[rank]
    return Part(None if work.micro_batch is None else batch.micro_batches[work.micro_batch], work.size)
