"""Which rows of a micro-batch each rank of a team computes, and which of its trained tokens they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchgrad.networks.packed import Rows


@dataclass(frozen=True, slots=True)
class Shares:
    """Rows of a micro-batch in runs of like length: rank `r` of a team computes those from `edges[r]` to `edges[r + 1]`.

    The last layer computes the rows `said` alone, ascending, or all. Trained token `n` is predicted in row `places[n]`.

    With `Shares.even(2, 5, said=[1, 3, 4], places=[3, 1, 4])` rank 0 computes rows 0 and 1, of which the last layer computes one, and
    predicts trained token 1; rank 1 computes rows 2 to 4 and predicts tokens 0 and 2.
    """

    edges: tuple[int, ...]
    said: Rows | None
    places: Rows

    @classmethod
    def even(cls, size: int, rows: int, said: Sequence[int] | Rows | None, places: Sequence[int] | Rows) -> Shares:
        """So many rows over a team of this size; with fewer rows than ranks some ranks have none."""
        edges = tuple(rows * rank // size for rank in range(size + 1))
        return cls(edges, None if said is None else np.asarray(said, np.int64), np.asarray(places, np.int64))

    @property
    def size(self) -> int:
        """How many ranks the team has."""
        return len(self.edges) - 1

    def rows(self, rank: int) -> slice:
        """The rows that a rank computes."""
        return slice(self.edges[rank], self.edges[rank + 1])

    @property
    def counts(self) -> list[int]:
        """How many rows each rank computes."""
        return [self.edges[rank + 1] - self.edges[rank] for rank in range(self.size)]

    @property
    def said_counts(self) -> list[int]:
        """How many rows the last layer computes on each rank."""
        return [len(self._said(rank)) for rank in range(self.size)]

    def said_of(self, rank: int) -> Rows | None:
        """Those of a rank's own rows that the last layer computes; all without."""
        return None if self.said is None else self._said(rank) - self.edges[rank]

    def predicted(self, rank: int) -> Rows:
        """The trained tokens that a rank's rows predict, ascending."""
        return np.flatnonzero((self.places >= self.edges[rank]) & (self.places < self.edges[rank + 1]))

    def predicting(self, rank: int) -> Rows:
        """Where each of them is predicted, among the rows that the rank's last layer computes."""
        return np.searchsorted(self._said(rank), self.places[self.predicted(rank)])

    @property
    def order(self) -> Rows:
        """Where each trained token stands once the ranks' tokens lie one rank after the other."""
        return np.argsort(np.concatenate([self.predicted(rank) for rank in range(self.size)]))

    def _said(self, rank: int) -> Rows:
        said = np.arange(self.edges[-1]) if self.said is None else self.said
        first, last = np.searchsorted(said, self.edges[rank : rank + 2])
        return said[first:last]
