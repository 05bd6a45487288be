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

ENDS: tuple[tuple[Stop, frozenset[str]], ...] = (
    ("context limit", frozenset({"context", "window"})),
    ("time limit", frozenset({"time", "timeout", "timed"})),
    ("format errors", frozenset({"format"})),
    ("repeats", frozenset({"stuck", "loop", "looping", "repeated"})),
    ("turn limit", frozenset({"limit", "limits", "cost", "iteration", "iterations", "turn", "turns", "step", "steps"})),
)
"""An end here, and words of others for it; the first of which one is there."""

MESSAGE = Call("message", "")
_FENCE = re.compile(r"```[\w-]*\s*")


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
    trajectory = Trajectory(
        told.attempt, task.id, tuple(segments), stop_of(told), told.submission, origin=told.origin, replayed=told.replayed
    )
    reward = Reward(float(told.solved or False), {"resolved": float(told.solved or False)})
    return Rollout(task, trajectory, _verdict(told), reward)


def stop_of(told: Told) -> Stop:
    """How it ended. An end that is one of ours stays; under another name what has a patch was handed in, as others judge all patches."""
    ended = told.ended.strip()
    own: list[Stop] = [stop for stop in get_args(Stop) if stop == ended.lower()]
    if told.solved or (not own and (told.submission or ended.lower().startswith("submit"))):
        return "submitted"
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", ended).lower()))
    return next(iter([*own, *(stop for stop, others in ENDS if words & others)]), "abstained")


def _verdict(told: Told) -> Verdict:
    if told.solved is None:
        return Verdict(told.task, told.submission, (), (), fault="the file does not say whether it is solved")
    test = TestOutcome("as the file says", "fail_to_pass", "passed" if told.solved else "failed")
    return Verdict(told.task, told.submission, ("applied", "collected", "ran"), (test,))


def _turns(said: tuple[Said, ...], parent: str, usage: Iterator[Usage], spelt: bool) -> Iterator[Turn]:
    """A turn for each of the assistant's messages, with what was said before it and after it."""
    native = any(one.calls for one in said)
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
        turn = Turn(context, previous, call_of(said[at], native), Observation(answer, ToolState("")), "", parent)
        parent = turn.address
        yield turn


def call_of(said: Said, native: bool = False) -> Call:
    """The first call of a message: one of the protocol's, tags of functions, or the last block between fences; else it is a `message`.

    Where others of its attempt make calls of the protocol's, `native`, text is text. A single argument is told as it is:
    `{"command": "ls"}` of `bash` is `bash` with `ls`.
    """
    if said.calls:
        return _call(*said.calls[0])
    if native:
        return MESSAGE
    if (found := read(said.content).call) is not None:
        return _call(found.name, found.text)
    return _tagged(said.content) or _fenced(said.content) or MESSAGE


def _tagged(text: str) -> Call | None:
    """`<function=bash><parameter=command>ls</parameter></function>`: the first such call."""
    head, opened, rest = text.partition("<function=")[2].partition(">")
    body, closed, _ = rest.partition("</function>")
    if not opened or not closed or not re.fullmatch(r"[\w.-]+", head):
        return None
    parts = [part.partition("<parameter=")[2].partition(">") for part in body.split("</parameter>")[:-1]]
    return _call(head, json.dumps({name: value.strip("\n") for name, _, value in parts if name}, ensure_ascii=False))


def _fenced(text: str) -> Call | None:
    """What the last pair of fences has between them."""
    found: str | None = None
    inside: list[str] | None = None
    for line in text.split("\n"):
        if inside is None:
            inside = [] if _FENCE.fullmatch(line) else None
        elif line.rstrip() == "```":
            found, inside = "\n".join(inside), None
        else:
            inside.append(line)
    return None if found is None else Call("shell", found)


def _call(name: str, arguments: str) -> Call:
    try:
        values = list(json.loads(arguments).values())
    except (ValueError, AttributeError, RecursionError):
        values = []
    return Call(name, values[0] if len(values) == 1 and isinstance(values[0], str) else arguments)
