"""What attempts are made in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from patchgrad.contracts import Agent, Executor, Sandboxes
from patchgrad.rollouts.repository import commit
from patchgrad.rollouts.tool_cache import Answers
from patchgrad.values import Ending, Sampling, Snapshot, Task, Turn, Verdict

NEUTRAL = Sampling(max_tokens=1, seed=0)


@dataclass(frozen=True, slots=True)
class Harness:
    """What an episode needs, handed in by a recipe. `on_turn(trajectory id, turn)` writes the journal, `on_state` what turns left.

    `recall(trajectory id, beginning)` reads what the journal knows of an attempt, and `state(address, directory)` what a turn left: an
    attempt that was interrupted goes on after its last turn, one that had ended is not made again. `sampling` shapes the distribution, in
    evaluations and studies only; its seed and length are replaced. What is trained on has to be `journalled`.
    `commits` remembers what `commit_of` has asked, and `answers`, where it is there, what attempts were answered.
    """

    agent: Agent
    sandboxes: Sandboxes
    grade: Callable[[Task, str], Awaitable[Verdict]]
    executor: Executor
    on_turn: Callable[[str, Turn], None] = lambda _, turn: None
    on_state: Callable[[Snapshot], None] = lambda _: None
    on_ending: Callable[[str, Ending], None] = lambda _, ending: None
    recall: Callable[[str, str], tuple[tuple[Turn, ...], Ending | None]] = lambda _, beginning: ((), None)
    state: Callable[[str, str], Snapshot] | None = None
    journalled: Callable[[str, str], bool] | None = None
    sampling: Sampling = NEUTRAL
    commits: dict[str, str] = field(default_factory=dict)
    answers: Answers | None = None

    async def commit_of(self, task: Task) -> str:
        """The commit that every sandbox of a task begins at; asked once, of a fresh one: in others an agent may have committed."""
        known = task.digest()
        if known not in self.commits:
            async with await self.sandboxes.open(task) as fresh:
                self.commits[known] = await commit(fresh)
        return self.commits[known]
