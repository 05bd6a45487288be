"""A trajectory of Harbor (ATIF 1.x), with the result of its trial where that lies beside it.

TRIAL/result.json    TRIAL/agent/trajectory.json    TRIAL/agent/trajectory.cont-1.json, another stream of the same attempt
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.runs.imports.told import Told, context, said, solved, thinking, values, word
from patchgrad.values import Usage
from patchgrad.values.text import parsed

ROLES = {"system": "system", "user": "user", "agent": "assistant"}
SOLVED = ("extra.solved", "extra.resolved", "verifier_result.rewards.reward")
TASK = ("extra.task", "task_name", "extra.instance_id")
ATTEMPT = ("trial_name", "trajectory_id", "session_id")
POLICY = ("agent.model_name", "agent_info.model_info.name", "agent.name")
OWN = re.compile(r"trajectory(\.cont-\d+)?\.json")
"""What an agent of Harbor's writes of an attempt; others beside it are of its helpers, or say the same in other words."""


def told(document: Mapping[str, Any], file: Path, name: str) -> Told | None:
    """The attempt of a document, nothing where it is none; `name` stands for its task where nothing does."""
    if not str(document.get("schema_version", "")).startswith("ATIF-"):
        return None
    steps = document.get("steps")
    if not isinstance(steps, list) or any(not isinstance(step, Mapping) or step.get("source") not in [*ROLES] for step in steps):
        raise StoreError(f"its steps are not of the sources {', '.join(ROLES)}")
    ours = values(document, ("agent.name",)) == ["patchgrad"]
    about = {**trial(file), **document}
    own = [step for step in steps if ours or step.get("is_copied_context") is not True]
    usage = [_usage(step) for step in own if step["source"] == "agent"]
    return Told(
        word(about, TASK) or name,
        word(about, ATTEMPT),
        (said(list(_said(steps, ours))),),
        policy=word(about, POLICY),
        solved=None if word(about, ("extra.fault",)) else solved(about, SOLVED),
        submission=word(about, ("extra.submission",)),
        ended=word(about, ("extra.stop", "exception_info.exception_type")),
        usage=tuple(one for one in usage if one is not None) if all(usage) else (),
        spelt=ours,
        goes_on=".cont-" in file.name,
        replayed=sum(step["source"] == "agent" and step.get("is_copied_context") is True for step in steps) if ours else 0,
        origin=word(about, ("extra.origin",)) if ours else "",
    )


def trial(file: Path) -> Mapping[str, Any]:
    """What Harbor found of the trial that a file is of; nothing where it has left nothing."""
    try:
        found = parsed((file.absolute().parent.parent / "result.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "trial_name" in found else {}


def beside(file: Path) -> bool:
    """Is it a file of a trial that tells of the same attempt as another one, or of a helper's?"""
    return file.absolute().parent.name == "agent" and OWN.fullmatch(file.name) is None and bool(trial(file))


def _said(steps: list[Any], ours: bool) -> Iterator[dict[str, Any]]:
    """What another trajectory has said is one message to the policy, but in our exports: there it is what a fork replays."""
    for copied, some in groupby(steps, lambda step: not ours and step.get("is_copied_context") is True):
        made = [message for step in list(some) for message in _messages(step)]
        yield from [context(made)] if copied else made


def _messages(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = thinking(step.get("reasoning_content"), step.get("message") or "")
    calls = step.get("tool_calls") or []
    if not isinstance(calls, list) or any(not isinstance(call, Mapping) or "function_name" not in call for call in calls):
        raise StoreError("the calls of a step are no list of calls with a function_name")
    made = [{"type": "function", "function": {"name": call["function_name"], "arguments": call.get("arguments", {})}} for call in calls]
    yield {"role": ROLES[step["source"]], "content": content, **({"tool_calls": made} if made else {})}
    for result in _results(step.get("observation")):
        yield {"role": "tool", "content": result.get("content") or "", "tool_call_id": result.get("source_call_id") or ""}


def _results(observation: Any) -> list[Any]:
    """The answers of a step; `StoreError` for what has another form."""
    if isinstance(observation, str):
        return [{"content": observation}]
    found = (observation.get("results") if isinstance(observation, Mapping) else observation) or []
    if not isinstance(found, list) or any(not isinstance(result, Mapping) for result in found):
        raise StoreError("the observation of a step is no list of results")
    return found


def _usage(step: Mapping[str, Any]) -> Usage | None:
    counts = values(step, ("metrics.prompt_tokens", "metrics.completion_tokens"))
    return Usage(*counts) if len(counts) == 2 and all(type(count) is int and 0 <= count < 1 << 40 for count in counts) else None
