"""Which ranks compute which micro-batch when: every rank makes as many steps as every other, or a collective waits for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """A micro-batch, by its number, that the `size` ranks from `first` on compute together; without one they only keep step."""

    micro_batch: int | None
    first: int
    size: int

    @property
    def ranks(self) -> range:
        """The team."""
        return range(self.first, self.first + self.size)


Step = tuple[Work, ...]
"""What all ranks do at once, by rank: one of a team of three stands there three times."""


def schedule(lengths: Sequence[int], ranks: int, allowed: Sequence[int], budget: int) -> list[Step]:
    """Steps in which each micro-batch is computed once, by as few ranks as keep what one of them computes within a `budget` of tokens.

    A team of `size` begins at a multiple of it. Micro-batches of the same team size keep their order: with one rank each, number `i` is
    rank `i % ranks`'s in step `i // ranks`, as `LocalTrainer` deals them to its threads.

    Of lengths 90, 30, 20 and 10 with a budget of 40 on four ranks that may share by 1, 2 and 4, the first is computed by all four, and the
    others beside each other in the next step, where the fourth rank only keeps step.
    """
    wanted = [next((size for size in allowed if length <= size * budget), allowed[-1]) for length in lengths]
    steps: list[Step] = []
    teams: list[Work] = []
    for number in sorted(range(len(lengths)), key=lambda number: -wanted[number]):
        size = wanted[number]
        first = -(-(teams[-1].ranks.stop if teams else 0) // size) * size
        if first + size > ranks:
            steps.append(_by_rank(teams, ranks))
            teams, first = [], 0
        teams.append(Work(number, first, size))
    return [*steps, _by_rank(teams, ranks)] if teams else steps


def _by_rank(teams: Sequence[Work], ranks: int) -> Step:
    return tuple(next((work for work in teams if rank in work.ranks), Work(None, rank, 1)) for rank in range(ranks))
