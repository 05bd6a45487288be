"""What came of tasks, by the draw that they came in: a batch may be observed when later ones are drawn already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from patchgrad.learning.curricula.plateau import plateaued


class Outcomes:
    """The solved shares of each draw's tasks. What is observed belongs to the oldest draw in which the task is still open.

    >>> outcomes = Outcomes()
    >>> outcomes.draw(["a", "b"])
    >>> outcomes.draw(["a", "c"])
    >>> for task, share in (("a", 0.5), ("b", 0.0), ("a", 1.0)):
    ...     outcomes.observe(task, share)
    >>> outcomes.shares
    [[0.5, 0.0], [1.0]]
    """

    def __init__(self) -> None:
        self.shares: list[list[float]] = []
        self._open: list[list[str]] = []
        self._began = 0

    def draw(self, tasks: Sequence[str]) -> None:
        """These are drawn together."""
        self.shares.append([])
        self._open.append(list(tasks))

    def observe(self, task: str, share: float | None) -> None:
        """So much of its attempts was solved; `None` where none of them tells anything."""
        which = next((number for number, tasks in enumerate(self._open) if task in tasks), None)
        if which is not None:
            self._open[which].remove(task)
        elif not self.shares:
            self.draw([])
        if share is not None:
            self.shares[-1 if which is None else which].append(share)

    def begin_stage(self) -> None:
        """What was drawn before says nothing of whether the new stage rises."""
        self._began = len(self.shares)

    def plateaued(self, window: int) -> bool:
        """Did the last so many draws of this stage bring no better outcomes than those before (`plateau.plateaued`)?"""
        return plateaued(self.shares[self._began :], window)

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return {"iterations": [list(one) for one in self.shares], "open": [list(one) for one in self._open], "began": self._began}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state()`; in one of an earlier version nothing is open."""
        self.shares = [list(one) for one in state["iterations"]]
        self._open = [list(one) for one in state.get("open", [[] for _ in self.shares])]
        self._began = state["began"]
