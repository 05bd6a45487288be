"""An attempt of a program that runs inside the attempt's sandbox: the call of each turn hands it the answer, and what it asks then is told.

    it asks -> the step; the policy answers -> the turn's call: it gets the answer, does in the sandbox what it wants, asks -> the step

So a turn's state is what the program has made of the files by the time it asks again.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.agents.gateway import dialects
from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.dialects import COUNT, MODELS, WIRES, HttpAnswer, Posted, Sampled
from patchgrad.agents.gateway.history import History, beginning
from patchgrad.contracts import AttemptAccess, Extend, Finish, Restart, Sandbox, Tool
from patchgrad.errors import ContextFault, Fault, PolicyFault, ProgramFault
from patchgrad.values import Failure, Observation, Stop, ToolState, Turn

SCRIPT = Path(__file__).parent / "scripts" / "inside_sandbox.py"
ANSWER = "answer"
FAILURES: Mapping[str, Failure] = {"timeout": "timeout", "died": "died", "out of memory": "out of memory"}


@dataclass(frozen=True, slots=True)
class Job:
    """What is started: `argv` and variables, in which `{address}` stands for where it is to ask, and the names of `words` for these.

    With `calls_tools`, what it asks without naming a tool is aside: a title, a summary.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    words: Mapping[str, str]
    calls_tools: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """What waits for an answer, and the step that it is."""

    posted: Posted
    digest: str
    step: Extend | Restart


@dataclass(frozen=True, slots=True)
class _Over:
    """The program is over; or `broke`, where it is not by its own doing."""

    stop: Stop
    broke: Fault | None = None


class InsideConversation:
    """A `Conversation`, and the one tool of its calls."""

    name = ANSWER
    usage = "what a policy says, for the program that asked"
    reads_only = False

    def __init__(self, job: Job) -> None:
        self._job = job
        self._history = History()
        self._access: AttemptAccess | None = None
        self._now: _Asked | _Over | None = None
        self._answers: deque[tuple[str, HttpAnswer]] = deque(maxlen=2)  # by the digest of what was asked: for a retry
        self._turns = 0

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The calls of its turns run the program itself."""
        return {ANSWER: self}

    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
        """What the program asks; it is started when it is first asked."""
        self._access = access
        if self._now is None:
            sandbox = await access.sandbox()
            await self._start(sandbox)
            self._now, _ = await self._following(sandbox, None)
        if isinstance(self._now, _Asked):
            return self._now.step
        if self._now.broke is not None:
            raise self._now.broke
        return Finish(self._now.stop)

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        return False

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        """Hands the program its answer; what it asks next is what is observed."""
        if not isinstance(self._now, _Asked) or self._access is None:
            return Observation("The program asks nothing.", state, failure="bad arguments")
        asked, (action, prompt) = self._now, self._access.sampled
        sampled = Sampled(read(arguments), action, prompt, self._turns)
        self._turns += 1
        self._history.answered(sampled.said)
        answer = asked.posted.reply(sampled)
        self._answers.append((asked.digest, answer))
        try:
            self._now, failure = await self._following(sandbox, answer)
        except (ProgramFault, PolicyFault, ContextFault) as fault:
            self._now, failure = _Over("failed", fault), None
        return Observation(_new(self._now.step) if isinstance(self._now, _Asked) else "", state, failure=failure)

    async def close(self) -> None:
        """Its sandbox ends it."""

    async def _start(self, sandbox: Sandbox) -> None:
        job = json.dumps({"argv": self._job.argv, "environment": dict(self._job.environment), "words": dict(self._job.words)})
        begun = await sandbox.exec(_words("start"), stdin=job.encode())
        if begun.output.strip() != "ready":
            said = begun.output.strip().splitlines()
            raise ProgramFault(f"agent.scaffold: the program cannot be started in the sandbox: {said[-1] if said else begun.state}")

    async def _following(self, sandbox: Sandbox, answer: HttpAnswer | None) -> tuple[_Asked | _Over, Failure | None]:
        """What it asks after this answer and is a turn's: what is no question of that kind is replied to here."""
        left = self._known.command_seconds
        while left > 0:
            told: dict[str, Any] = {}
            if answer is not None:
                told = {"reply": {"status": answer.status, "kind": answer.kind, "body": answer.body}}
            done = await sandbox.exec(_words("next"), left, stdin=json.dumps(told).encode())
            left -= done.seconds
            if done.state != "ok":
                return _Over("time limit" if done.state == "timeout" else "submitted"), FAILURES.get(done.state)
            event = _event(done.report)
            if event is None:
                if self._turns:  # what it was told to do has ended it
                    return _Over("submitted"), "died"
                raise ProgramFault(f"the program cannot be asked in the sandbox: {_last(done.output)}")
            if "ended" in event:
                return self._ended(event["ended"], event["words"]), None
            found = await self._asked(event)
            if isinstance(found, _Asked):
                return found, None
            answer = found
        return _Over("time limit"), "timeout"

    def _ended(self, status: int, words: str) -> _Over:
        """A program that was answered ends as it does because of what it was told; one that was not could not begin."""
        if not self._turns:
            raise ProgramFault(f"the program ended with status {status} before it was answered: {_last(words)}")
        return _Over("submitted")

    async def _asked(self, event: Mapping[str, Any]) -> _Asked | HttpAnswer:
        """The question of a request, or what is answered at once."""
        path, body = event["path"], event["body"]
        if event["method"] != "POST":
            return MODELS if path == "/v1/models" else HttpAnswer(200, "")
        if path not in WIRES:
            return dialects.refused(path, f"Nothing is answered at {path}: there are {', '.join(WIRES)}.", 404)
        posted, digest = dialects.posted(path, body), hashlib.blake2b(f"{path} {body}".encode(errors="surrogatepass")).hexdigest()
        if isinstance(posted, HttpAnswer):
            return posted
        if path == COUNT:
            return HttpAnswer(200, json.dumps({"input_tokens": self._known.count(beginning(posted.request))}))
        earlier = next((answer for asked, answer in self._answers if asked == digest), None)
        if event["retried"] and earlier is not None:
            return earlier
        if self._job.calls_tools and not posted.request.offers:
            action, prompt = await self._known.aside(beginning(posted.request))
            return posted.reply(Sampled(read(action.text), action, prompt, self._turns))
        return _Asked(posted, digest, self._history.step(posted.request))

    @property
    def _known(self) -> AttemptAccess:
        if self._access is None:
            raise ProgramFault("the program was not begun")
        return self._access


def _new(step: Extend | Restart) -> str:
    """What the program tells beyond what was said before; nothing where it tells another story."""
    goes_on = isinstance(step, Extend) or step.after is not None
    return "\n".join(message.content for message in step.messages) if goes_on else ""


def _event(report: bytes) -> Mapping[str, Any] | None:
    """What the program does next; nothing where that is none of it: whoever is in the sandbox may write what it wants."""
    try:
        told = json.loads(report)
    except (ValueError, RecursionError):
        return None
    for kinds in ({"ended": int, "words": str}, {"method": str, "path": str, "retried": bool, "body": str}):
        if isinstance(told, dict) and all(isinstance(told.get(name), kind) for name, kind in kinds.items()):
            return told
    return None


def _words(what: str) -> tuple[str, ...]:
    return ("python3", "-I", "-c", SCRIPT.read_text(), what)


def _last(words: str) -> str:
    lines = words.strip().splitlines()
    return lines[-1][:500] if lines else "it said nothing"
