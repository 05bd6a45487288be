"""What attempts are made with, whichever policy makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from patchgrad.contracts import Agent, Executor, Journal, Judge, Sandboxes
from patchgrad.rollouts.journals import NullJournal
from patchgrad.rollouts.repository import commit
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.values import Rollout, Task, Verdict


@dataclass(frozen=True, slots=True)
class Harness:
    """Agent, sandboxes, grader and what stands around them.

    The `journal` keeps what happens; an attempt that was interrupted goes on after its last turn, and one that has ended is not made again.
    `judges` find more about an attempt than its hidden tests do. With a `cache`, a call that another attempt has made in the same state is
    not run again. `seen` is told of every finished attempt. `commits` remembers what `commit_of` has asked.
    """

    agent: Agent
    sandboxes: Sandboxes
    grade: Callable[[Task, str], Awaitable[Verdict]]
    executor: Executor
    journal: Journal = field(default_factory=NullJournal)
    judges: tuple[Judge, ...] = ()
    cache: ToolCache | None = None
    seen: Callable[[Rollout], None] = lambda rollout: None
    commits: dict[str, str] = field(default_factory=dict)

    async def commit_of(self, task: Task) -> str:
        """The commit that every sandbox of a task begins at; asked once, of a fresh one: in others an agent may have committed."""
        known = task.digest()
        if known not in self.commits:
            async with await self.sandboxes.open(task) as fresh:
                self.commits[known] = await commit(fresh)
        return self.commits[known]
