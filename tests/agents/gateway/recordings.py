"""What agents of others sent, as `recorded/record.py` has kept it, and an attempt whose program sends it again."""

from __future__ import annotations

import asyncio
import copy
import http.client
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rollouts.test_loop import FILES, TASK

from patchgrad.agents.gateway.conversation import Begun, ProgramConversation
from patchgrad.agents.gateway.dialects import Posted, posted
from patchgrad.agents.gateway.history import ChatRequest
from patchgrad.contracts import Policy, Sandbox, Tool
from patchgrad.grading.rewards import Resolved
from patchgrad.rollouts.attempts import NEUTRAL, rewarded, run_attempt
from patchgrad.rollouts.harness import Workbench
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.rollouts.loop import rolled
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.values import Attempt, Budget, Call, Observation, Rollout, Task, ToolState, Trajectory, Turn, Verdict

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@dataclass(frozen=True)
class Sent:
    """A request: where it went, its headers as far as they are kept, and its body."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def said(self) -> ChatRequest:
        """As the gateway reads it."""
        found = posted(self.path, json.dumps(self.body))
        assert isinstance(found, Posted), found
        return found.request


@dataclass(frozen=True)
class Recording:
    """What a program sent in one run, and what the policy said to it."""

    program: str
    says: Sequence[str]
    requests: Sequence[Sent]

    @property
    def turns(self) -> Sequence[Sent]:
        """The requests that are turns of its work; one that was asked again is there once."""
        tools = [sent for sent in self.requests if sent.body.get("tools")] or self.requests
        return [sent for number, sent in enumerate(tools) if not number or sent.body != tools[number - 1].body]

    def edited(self, edit: Callable[[int, dict[str, Any]], None]) -> Recording:
        """The same with an edit of each body, which is told the number of its request."""
        bodies = [copy.deepcopy(sent.body) for sent in self.requests]
        for number, body in enumerate(bodies):
            edit(number, body)
        sent = [Sent(one.path, one.headers, body) for one, body in zip(self.requests, bodies, strict=True)]
        return Recording(self.program, self.says, sent)


def recording(name: str) -> Recording:
    """The recording of this name."""
    told = json.loads((FOLDER / f"{name}.json").read_text())
    return Recording(told["program"], told["says"], [Sent(one["path"], one["headers"], one["body"]) for one in told["requests"]])


class Nothing:
    """A tool that does nothing: what a call gave stands in the next request."""

    name = "said"
    usage = "all that the policy says"
    reads_only = True

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        return False

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        return Observation("", state)


@dataclass
class Repeating:
    """A program that sends what was recorded; `answers` are the bodies that it got, with their status."""

    sent: Sequence[Sent]
    answers: list[tuple[int, str]] = field(default_factory=list)
    tools: Mapping[str, Tool] = field(default_factory=lambda: {"said": Nothing()})
    goes_on = True

    def parse(self, text: str) -> Call:
        return Call("said", text)

    def begin(self, instruction: str) -> ProgramConversation:
        def start(address: str, token: str, ended: Callable[[str, str], None]) -> Callable[[], None]:
            threading.Thread(target=self._ask, args=(address, token, ended), daemon=True).start()
            return lambda: None

        return ProgramConversation(Begun(self.tools, start, {"done": "submitted"}))

    def _ask(self, address: str, token: str, ended: Callable[[str, str], None]) -> None:
        for sent in self.sent:
            connection = http.client.HTTPConnection(address.removeprefix("http://"))
            connection.request("POST", sent.path, json.dumps(sent.body), {**sent.headers, "Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            self.answers.append((answer.status, answer.read().decode()))
            connection.close()
            if answer.status != 200:
                return ended("refused", self.answers[-1][1])
        ended("done", "")


async def _grade(task: Task, patch: str) -> Verdict:
    return Verdict(task.id, patch, (), ())


def _asked(program: Repeating, journal: MemoryJournal, context: int) -> tuple[Workbench, Attempt]:
    bench = Workbench(program, LocalSandboxes(FILES), _grade, journal)
    return bench, Attempt(TASK, "a/0", 1, Budget(turns=16, context=context), NEUTRAL)


def attempted(program: Repeating, policy: Policy, context: int = 1 << 20) -> tuple[Rollout, MemoryJournal]:
    """An attempt of such a program, and the journal that its turns stand in."""
    journal = MemoryJournal()
    bench, attempt = _asked(program, journal, context)
    graded = asyncio.run(run_attempt((bench, policy), attempt))
    return rewarded(TASK, graded, Resolved()), journal


def gone_on(program: Repeating, policy: Policy, taken: Sequence[Turn], journal: MemoryJournal) -> Trajectory:
    """The same attempt by another process, which goes on after these turns."""
    bench, attempt = _asked(program, journal, 1 << 20)
    return asyncio.run(rolled(bench, policy, attempt, taken)).trajectory
