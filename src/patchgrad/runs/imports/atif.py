"""A trajectory of Harbor (ATIF 1.x), with the result of its trial where that lies beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.runs.imports.told import Told, first, said, truth
from patchgrad.values import Usage
from patchgrad.values.text import loaded

ROLES = {"system": "system", "user": "user", "agent": "assistant"}
SOLVED = ("extra.solved", "extra.resolved", "verifier_result.rewards.reward")
TASK = ("extra.task", "task_name", "extra.instance_id")
POLICY = ("agent.model_name", "agent_info.model_info.name", "agent.name")


def told(document: Mapping[str, Any], file: Path) -> Told | None:
    """The attempt of a document; nothing where it is no trajectory. `FILE` of a trial is `TRIAL/agent/trajectory.json`."""
    if not str(document.get("schema_version", "")).startswith("ATIF-"):
        return None
    steps = document.get("steps")
    if not isinstance(steps, list) or any(not isinstance(step, dict) or step.get("source") not in ROLES for step in steps):
        raise StoreError(f"its steps are not of the sources {', '.join(ROLES)}")
    about = {**_trial(file.parent.parent / "result.json"), **document}
    usage = tuple(_usage(step) for step in steps if step["source"] == "agent")
    return Told(
        str(first(about, TASK) or file.parent.parent.name or file.stem),
        str(first(about, ("trajectory_id", "trial_name", "session_id")) or ""),
        (said([message for step in steps for message in _messages(step)]),),
        policy=str(first(about, POLICY) or ""),
        solved=truth(first(about, SOLVED)),
        submission=str(first(about, ("extra.submission",)) or ""),
        ended=str(first(about, ("extra.stop", "exception_info.exception_type")) or ""),
        spelt=first(about, ("agent.name",)) == "patchgrad",
        usage=tuple(one for one in usage if one is not None) if all(usage) else (),
    )


def _trial(path: Path) -> Mapping[str, Any]:
    """What Harbor found of the trial; nothing where it has left nothing."""
    try:
        found = loaded(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "trial_name" in found else {}


def _messages(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = step.get("message") or ""
    if (thought := step.get("reasoning_content")) and isinstance(content, str):
        content = f"<think>\n{thought}\n</think>\n\n{content}"
    calls = [
        {"id": call.get("tool_call_id"), "type": "function", "function": {"name": call["function_name"], "arguments": call["arguments"]}}
        for call in step.get("tool_calls") or []
        if isinstance(call, dict) and {"function_name", "arguments"} <= call.keys()
    ]
    yield {"role": ROLES[step["source"]], "content": content, **({"tool_calls": calls} if calls else {})}
    observation = step.get("observation")
    for result in (observation.get("results") or []) if isinstance(observation, dict) else []:
        yield {"role": "tool", "content": result.get("content") or "", "tool_call_id": result.get("source_call_id") or ""}


def _usage(step: Mapping[str, Any]) -> Usage | None:
    read, sampled = first(step, ("metrics.prompt_tokens",)), first(step, ("metrics.completion_tokens",))
    return Usage(read, sampled) if isinstance(read, int) and isinstance(sampled, int) else None
