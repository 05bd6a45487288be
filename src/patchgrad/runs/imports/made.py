"""From what a file tells of an attempt to the attempt: turns of text, which can be looked at and are never trained.

system, user, assistant "ls", tool "a.py", assistant "Done."
-> turn 1: context system, user;  action "ls";     observation "a.py"
   turn 2: context a.py;          action "Done.";  observation ""
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import get_args

from patchgrad.agents.gateway.calls import read, written
from patchgrad.agents.gateway.history import ChatRequest, Said, beginning, later
from patchgrad.policies.endpoint.framing import STOP, encode, spell
from patchgrad.runs.imports.told import Told
from patchgrad.values import (
    Action,
    Call,
    Checks,
    Observation,
    Repository,
    Reward,
    Rollout,
    Segment,
    Stop,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Usage,
    Verdict,
    floats,
    ids,
    root_address,
)

LIMITS: tuple[tuple[str, Stop], ...] = (
    ("context", "context limit"),
    ("time", "time limit"),
    ("format", "format errors"),
    ("stuck", "repeats"),
    ("loop", "repeats"),
    ("repeat", "repeats"),
    ("limit", "turn limit"),
    ("cost", "turn limit"),
    ("iteration", "turn limit"),
    ("turn", "turn limit"),
    ("step", "turn limit"),
)
"""What stands in others' words for an end, and what it is here; the first that is found decides."""

_TAGGED = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>(.*?)</parameter>", re.DOTALL)
_FENCED = re.compile(r"^```[\w-]*\n(.*?)^```\s*$", re.DOTALL | re.MULTILINE)


def task_of(told: Told) -> Task:
    """The task that a file names, without its code and tests. Where no column has a statement it is what was said first."""
    opening = next((one.content for stream in told.streams for one in stream if one.role == "user"), "")
    return Task(told.task, told.instruction or opening, Repository("git", "", ""), Checks((), ()), tags={"source": "imported"})


def rollout_of(told: Told, task: Task) -> Rollout:
    """The attempt at a task. Where nobody knows whether it is solved it counts for nothing, as one that infrastructure broke does."""
    parent, usage, segments = root_address(task, told.attempt), iter(told.usage), []
    for stream in told.streams:
        turns = tuple(_turns(stream, parent, usage, told.spelt))
        parent = turns[-1].address if turns else parent
        segments += [Segment(turns)] if turns else []
    trajectory = Trajectory(told.attempt, task.id, tuple(segments), stop_of(told), told.submission)
    reward = Reward(float(told.solved or False), {"resolved": float(told.solved or False)})
    return Rollout(task, trajectory, _verdict(told), reward)


def stop_of(told: Told) -> Stop:
    """How it ended. What was solved was handed in, whatever its end was called."""
    word = told.ended.strip().lower()
    if told.solved or word.startswith("submit"):
        return "submitted"
    own = next((stop for stop in get_args(Stop) if stop == word), None)
    if stop := own or next((stop for part, stop in LIMITS if part in word), None):
        return stop
    return "submitted" if told.submission else "abstained"


def _verdict(told: Told) -> Verdict:
    if told.solved is None:
        return Verdict(told.task, told.submission, (), (), fault="the file does not say whether it is solved")
    test = TestOutcome("as the file says", "fail_to_pass", "passed" if told.solved else "failed")
    return Verdict(told.task, told.submission, ("applied", "collected", "ran"), (test,))


def _turns(said: tuple[Said, ...], parent: str, usage: Iterator[Usage], spelt: bool) -> Iterator[Turn]:
    """A turn for each of the assistant's messages, with what was said before it and after it."""
    places = [place for place, one in enumerate(said) if one.role == "assistant"]
    previous, size = None, 0
    for at, last, end in zip(places, [-1, *places], [*places[1:], len(said)], strict=False):
        before = later(said[:at], said[: last + 1]) if previous else beginning(ChatRequest(said[:at]))
        context = encode(before, previous)
        text = written(said[at].content, () if spelt else said[at].calls)
        tokens = [*spell(text), STOP]
        size += len(context)
        counted = next(usage, Usage(size, len(tokens)))
        size += len(tokens)
        previous = Action(ids(tokens), floats([]), 0, text, "stop", counted)
        answer = "\n".join(one.content for one in said[at + 1 : end])
        turn = Turn(context, previous, call_of(said[at]), Observation(answer, ToolState("")), "", parent)
        parent = turn.address
        yield turn


def call_of(said: Said) -> Call:
    """The first call of a message: one of the protocol's, tags of functions, or the last block between fences; else it is a `message`.

    A single argument is told as it is: `{"command": "ls"}` of `bash` is `bash` with `ls`.
    """
    if said.calls:
        return _call(*said.calls[0])
    if (found := read(said.content).call) is not None:
        return _call(found.name, found.text)
    if tagged := _TAGGED.search(said.content):
        parameters = {name: value.strip("\n") for name, value in _PARAMETER.findall(tagged[2])}
        return _call(tagged[1], json.dumps(parameters, ensure_ascii=False))
    blocks = _FENCED.findall(said.content)
    return Call("shell", blocks[-1].rstrip("\n")) if blocks else Call("message", "")


def _call(name: str, arguments: str) -> Call:
    try:
        values = list(json.loads(arguments).values())
    except (ValueError, AttributeError):
        values = []
    return Call(name, values[0] if len(values) == 1 and isinstance(values[0], str) else arguments)
