"""Where attempts at a task begin, so that about half of them succeed: after turns of an earlier attempt where it is too hard or too easy.

A task that nearly never is solved begins after the first turns of an attempt that solved it, one that nearly always is after those of an
attempt that failed. Starts that move backwards from success are the reverse curriculum of arXiv 1707.05300; own prefixes of successes on
hard problems are in PrefixRL (arXiv 2601.18795).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from patchgrad.values import Group, Start, Task, Turn, root_address

HARD, EASY = 0.25, 0.75
"""Shares of solved attempts up to which, and from which on, a task does not begin at its beginning."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is kept of a task: outcomes from its beginning, its last success, failure and attempt at a limit, and the share to replay.

    The policy learns: with each group the outcomes of those before count half as much. Attempts of one turn are none to begin after.
    """

    solved: float = 0.0
    attempts: float = 0.0
    success: str = ""
    failure: str = ""
    limited: str = ""
    share: float = 0.5


class Prefixes:
    """The stated rule: begin after a share of the turns of the last success (at most `HARD` solved) or failure (at least `EASY` solved).

    A hard task that was never solved goes on after turns of an attempt that ran into a limit, if there is one: others may finish what it
    had found by then (hindsight).

    The share is a half at first, and again after a group that began at the beginning, but along a limit. After a group that began so and
    solved more than half, it moves to where attempts succeed less: halfway to the beginning along a success, halfway to the end along a
    failure; after one that solved less, the other way, and along a limit back to the beginning in any case. The last turn, which submits,
    is never replayed; a share of less than half a turn is the task's own beginning, where it is counted again. So is every start along an
    attempt that is longer than the limits let the next ones be. `recall(attempt, beginning)` reads turns from the journal.

    Of a task solved in 1 of 20 attempts, that one in eight turns, the next attempts begin after four of them. If seven of ten solve it
    from there, those after begin after two.
    """

    def __init__(self, recall: Callable[[str, str], tuple[tuple[Turn, ...], object]]) -> None:
        self._recall = recall
        self._tasks: dict[str, _Known] = {}

    def start(self, task: Task, turns: int, context: int) -> Start:
        """Where the next attempts at a task begin, which may have so many turns and tokens, those that they replay included."""
        known = self._tasks.get(task.id, _Known())
        along = _along(known)
        if along is None:
            return Start()
        origin = str(getattr(known, along))
        taken, _ = self._recall(origin, root_address(task, origin))
        if len(taken) > turns or sum(len(turn.context) + len(turn.action.token_ids) for turn in taken) > context:
            return Start()
        count = min(round(known.share * len(taken)), len(taken) - 1)
        return Start(taken[:count], origin) if count > 0 else Start()

    def observe(self, group: Group) -> None:
        """What a group says of its task, or, if it began after a prefix, of that."""
        known = self._tasks.get(group.task.id, _Known())
        fewest = min(rollout.trajectory.replayed for rollout in group.rollouts)  # forks of the group's own turns replay more
        begun = [r for r in group.rollouts if not r.broken and r.trajectory.replayed == fewest > 0]
        if begun and (along := _along(known)):
            more = sum(r.solved for r in begun) / len(begun) > 0.5
            onward = along != "limited" and more == (along == "failure")
            known = replace(known, share=(known.share + 1) / 2 if onward else known.share / 2)
        if group.whole:
            share = known.share if _along(known) == "limited" else 0.5
            known = replace(known, solved=known.solved / 2, attempts=known.attempts / 2, share=share)
        for rollout in group.whole:
            known = replace(known, solved=known.solved + rollout.solved, attempts=known.attempts + 1)
            name = rollout.trajectory.id
            if len(rollout.trajectory.turns) > 1:
                known = replace(known, success=name) if rollout.solved else replace(known, failure=name)
                known = replace(known, limited=name) if rollout.trajectory.stop.endswith("limit") else known
        self._tasks[group.task.id] = known

    def state(self) -> dict[str, Any]:
        return {task: asdict(known) for task, known in self._tasks.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._tasks = {task: _Known(**known) for task, known in state.items()}


def _along(known: _Known) -> Literal["success", "failure", "limited"] | None:
    """Of which earlier attempt a task's next ones take the first turns, if of any."""
    rate = known.solved / known.attempts if known.attempts else 0.5
    if rate <= HARD:
        return "success" if known.success else "limited" if known.limited else None
    return "failure" if rate >= EASY and known.failure else None
