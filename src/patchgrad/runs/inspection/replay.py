"""An attempt once more, command by command: does the sandbox answer as it did, and does it end in the same state?

run, attempt -> its turns -> each call in a fresh sandbox -> equal, equal but for what changes by itself, or different
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from patchgrad.contracts import Agent, Program, Sandbox, Sandboxes
from patchgrad.errors import Refused, SandboxLost, StoreError
from patchgrad.rollouts.environment import told as told_lost
from patchgrad.store import Run
from patchgrad.values import Call, Malformed, Observation, Rollout, Task, ToolState, Turn

RULES: tuple[tuple[str, str], ...] = (
    (r"\b0x[0-9a-f]{4,16}\b", "an address of an object"),
    (r"\b\d+(\.\d+)?(e-\d+)? ?(s|ms|us|µs|ns|sec|seconds?)\b", "a time that something took"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "a date"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [A-Z0-9][a-z0-9]+ [A-Z0-9][a-z0-9]+ \d\d:\d\d(:\d\d)?( [A-Z]{3,4})?( \d{4})?", "a date"),
    (r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d\b", "a file's date"),
    (r"\b(pid|PID|process|seed)[ =:]+\d+", "a number of a process, or a seed"),
    (r"/tmp/[\w.-]*(tmp|pytest-)[\w./-]*", "a temporary file"),
    (r"\b[0-9a-f]{7,40}\b(?=[^\n]*(commit|HEAD|master|main)|\])", "a commit's name"),
)
"""What may differ between two runs of one command, and is taken for equal: a pattern, and what it stands for."""

Answer = Literal["equal", "alike", "different", "not run"]
NOTHING_RAN: Answer = "not run"


@dataclass(frozen=True, slots=True)
class Replayed:
    """A turn that was taken again: how its answer compares to what the journal has, and whether the files are the same after it."""

    number: int
    turn: Turn
    observation: Observation
    answer: Answer
    same_state: bool


def find(run: Run, attempt: str) -> Rollout:
    """The attempt of this id; `StoreError` names some that are like it."""
    rows = {row["attempt"]: row for row in run.rollouts.rows(columns=["attempt", "phase", "iteration"], refuse=Refused())}
    if attempt not in rows:
        near = get_close_matches(attempt, rows, 3, 0.0) or ["none yet"]
        raise StoreError(f"{run.folder} has no attempt {attempt!r}; there are {', '.join(near)} and {max(0, len(rows) - len(near))} more.")
    row = rows[attempt]
    return next(iter(run.rollouts.read(row["phase"], row["iteration"], attempt=attempt)))


async def replay(turns: Sequence[Turn], agent: Agent | Program, sandbox: Sandbox) -> AsyncIterator[Replayed]:
    """Takes each turn's call again, in a sandbox that was opened from the task; what no tool was called for is not run."""
    tool_state = ToolState()
    for number, turn in enumerate(turns, 1):
        seen, answer = turn.observation, NOTHING_RAN
        if isinstance(turn.call, Call) and (tool := agent.tools.get(turn.call.tool)) is not None:
            seen = await tool(turn.call.arguments, sandbox, tool_state)
        try:
            same = (await sandbox.snapshot()).address == turn.state
        except SandboxLost as lost:
            seen = Observation(str(lost), tool_state, failure="sandbox lost")
            same = turn.observation.failure == "sandbox lost"  # neither has a state
        if seen is not turn.observation:
            answer = compared(replace(turn.observation, content=turn.observation.content.removeprefix(told_lost(turn.lost))), seen)
        tool_state = turn.observation.tool_state
        yield Replayed(number, turn, seen, answer, same)


def compared(before: Observation, now: Observation) -> Answer:
    """`"in 0.12s"` and `"in 0.31s"` are alike; another exit code or another failure is different whatever was printed."""
    if (before.exit_code, before.failure) != (now.exit_code, now.failure):
        return "different"
    if before.content == now.content:
        return "equal"
    return "alike" if normalised(before.content) == normalised(now.content) else "different"


def normalised(text: str) -> str:
    """The text with everything that `RULES` name replaced by the name."""
    for pattern, name in RULES:
        text = re.sub(pattern, f"<{name}>", text)
    return text


async def opened(task: Task, turns: Sequence[Turn], run: Run, sandboxes: Sandboxes) -> Sandbox:
    """A sandbox in the state after these turns, the shell as the agent left it."""
    if not turns:
        return await sandboxes.open(task)
    last = turns[-1]
    kept = run.journal.states.get(last.state, last.observation.tool_state.directory)
    return await sandboxes.open(task, replace(kept, shell=last.shell))


def told(turn: Turn) -> str:
    """What the agent did in a turn, in one line."""
    return f"({turn.call.kind})" if isinstance(turn.call, Malformed) else f"{turn.call.tool} {turn.call.arguments}".split("\n")[0]
