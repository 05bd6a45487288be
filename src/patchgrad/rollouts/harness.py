"""What attempts are made with, whichever policy makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from patchgrad.contracts import Agent, Executor, Journal, Judge, Program, Sandboxes
from patchgrad.rollouts.journals import NullJournal
from patchgrad.rollouts.repository import commit
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.values import Rollout, Task, Verdict


@dataclass(frozen=True, slots=True)
class Workbench:
    """Agent, sandboxes, grader and what stands around them: what one attempt is made with, on whichever machine that is.

    The `journal` keeps what happens; an attempt that was interrupted goes on after its last turn, and one that has ended is not made again.
    `judges` find more about an attempt than its hidden tests do. With a `cache`, a call that another attempt has made in the same state is
    not run again. `commits` remembers what `commit_of` has asked.
    """

    agent: Agent | Program
    sandboxes: Sandboxes
    grade: Callable[[Task, str], Awaitable[Verdict]]
    journal: Journal = field(default_factory=NullJournal)
    judges: tuple[Judge, ...] = ()
    cache: ToolCache | None = None
    commits: dict[str, str] = field(default_factory=dict)

    async def commit_of(self, task: Task) -> str:
        """The commit that every sandbox of a task begins at; asked once, of a fresh one: in others an agent may have committed."""
        known = task.digest()
        if known not in self.commits:
            async with await self.sandboxes.open(task) as fresh:
                self.commits[known] = await commit(fresh)
        return self.commits[known]


@dataclass(frozen=True, slots=True)
class Harness(Workbench):
    """A workbench, who makes attempts on it, and who is told of every finished one.

    The executor may make them elsewhere, so it is handed the `workbench` alone.
    """

    executor: Executor = field(kw_only=True)
    seen: Callable[[Rollout], None] = lambda rollout: None

    @property
    def workbench(self) -> Workbench:
        """What is sent to where attempts are made."""
        return Workbench(self.agent, self.sandboxes, self.grade, self.journal, self.judges, self.cache, self.commits)
