"""A row of messages, as data sets of trajectories have them, and the files of SWE-agent and mini-swe-agent.

The names of columns are those of the exports here and of the sets that are used most: nebius/SWE-rebench-openhands-trajectories,
nebius/SWE-agent-trajectories, SWE-bench/SWE-smith-trajectories, SWE-Gym/OpenHands-Sampled-Trajectories and R2E-Gym/R2EGym-SFT-Trajectories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.runs.imports.told import Told, context, said, solved, thinking, values, word
from patchgrad.values.text import parsed

MESSAGES = ("messages", "trajectory", "history", "conversations", "conversation")
TASK = ("instance_id", "task_id", "task", "info.instance_id", "id")
ATTEMPT = ("trajectory_id", "traj_id")
POLICY = ("model_name", "model_name_or_path", "model", "info.config.model.model_name")
SOLVED = ("resolved", "target", "solved", "test_result.report.resolved", "success", "reward")
PATCH = ("model_patch", "generated_patch", "test_result.git_patch", "info.submission", "submission")
ENDED = ("exit_status", "info.exit_status")
STATEMENT = ("problem_statement", "issue", "instruction")
ROLES = {"ai": "assistant", "gpt": "assistant", "human": "user", "observation": "tool", "environment": "user"}
EXIT = "exit"
"""The role of mini-swe-agent's last message, which nobody reads."""


def told(row: Mapping[str, Any], name: str) -> Told | None:
    """The attempt of a row, nothing where it has no messages; `name` stands for its task where no column does."""
    found = _messages(row)
    if found is None:
        return None
    patches = values(row, PATCH) or values(row, ("patch",))  # beside one of the others it is the solution of the task
    return Told(
        word(row, TASK) or name,
        word(row, ATTEMPT),
        (said(list(_said(row, found))),) if found else (),
        policy=word(row, POLICY),
        solved=solved(row, SOLVED),
        submission=next((patch for patch in patches if isinstance(patch, str)), ""),
        ended=word(row, ENDED),
        instruction=word(row, STATEMENT),
        goes_on=type(row.get("context")) is int and row["context"] > 0,
    )


def _messages(row: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The first column that is a list in which somebody speaks, else an empty one; it may be JSON as text.

    Raises `StoreError` for one with other items.
    """
    silent = None
    for name in MESSAGES:
        value = row.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = parsed(value.encode())
            except ValueError as error:
                raise StoreError(f"{name} is no JSON that can be read ({error})") from error
        if isinstance(value, list) and any(map(_speaks, value)):
            if not all(map(_speaks, value)):
                raise StoreError(f"not all items of {name} are messages with a role")
            return value
        silent = value if value == [] else silent
    return silent


def _speaks(item: object) -> bool:
    """Is it a message of somebody?"""
    return isinstance(item, Mapping) and isinstance(item.get("role") or item.get("from"), str)


def _said(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Under the names of OpenAI, the system's message first; demonstrations of others are one message to the policy."""
    made = [_message(one) for one in messages if one.get("role") != EXIT]
    if isinstance(row.get("system"), str) and row["system"] and all(one["role"] != "system" for one in made):
        yield {"role": "system", "content": row["system"]}
    for shown, some in groupby(made, lambda one: one.get("is_demo") is True):
        told = list(some)
        yield from [context(told)] if shown else told


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    message = {key: value for key, value in given.items() if value is not None}
    role = message.get("role") or message.get("from")
    words = [message[name] for name in ("content", "value", "text", "system_prompt") if message.get(name) not in (None, "")]
    content = [_part(part) for part in words[0]] if words and isinstance(words[0], list) else words[0] if words else ""
    content = thinking(message.get("reasoning_content") or message.get("reasoning"), content)
    calls = _calls(message)
    return {**message, "role": ROLES.get(str(role), role), "content": content, **({"tool_calls": calls} if calls else {})}


def _part(part: Any) -> Any:
    """A thought among the parts of a message is told as text."""
    if isinstance(part, Mapping) and part.get("type") == "thinking":
        return {"type": "text", "text": thinking(part.get("thinking"), "")}
    return part


def _calls(message: Mapping[str, Any]) -> list[Any]:
    """The calls of a message, under their newest names. Raises `StoreError` for what is no list of calls."""
    calls = message.get("tool_calls") or []
    if isinstance(calls, str):
        try:
            calls = parsed(calls.encode())
        except ValueError as error:
            raise StoreError(f"the calls of a message are no JSON that can be read ({error})") from error
    if isinstance(message.get("function_call"), Mapping):
        calls = [{"function": message["function_call"]}]
    if not isinstance(calls, list):
        raise StoreError("the calls of a message are no list")
    return [one if not isinstance(one, Mapping) or "function" in one else {"function": one} for one in calls]
