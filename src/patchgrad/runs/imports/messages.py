"""A row of messages, as data sets of trajectories have them, and the files of SWE-agent and mini-swe-agent.

The names of columns are those of the exports here and of the sets that are used most: nebius/SWE-rebench-openhands-trajectories,
nebius/SWE-agent-trajectories, SWE-bench/SWE-smith-trajectories, SWE-Gym/OpenHands-Sampled-Trajectories and R2E-Gym/R2EGym-SFT-Trajectories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.runs.imports.told import Told, first, said, truth

MESSAGES = ("messages", "trajectory", "history", "conversations", "conversation")
TASK = ("instance_id", "task_id", "task", "info.instance_id", "id")
ATTEMPT = ("trajectory_id", "traj_id")
POLICY = ("model_name", "model_name_or_path", "model", "info.config.model.model_name")
SOLVED = ("resolved", "target", "solved", "test_result.report.resolved", "success", "reward")
PATCH = ("model_patch", "generated_patch", "test_result.git_patch", "info.submission", "submission", "patch")
ENDED = ("exit_status", "info.exit_status")
STATEMENT = ("problem_statement", "issue", "instruction")
ROLES = {"ai": "assistant", "gpt": "assistant", "human": "user"}


def told(row: Mapping[str, Any], name: str) -> Told | None:
    """The attempt of a row, nothing where it has no messages; `name` stands for its task where no column does."""
    found = _messages(row)
    if found is None:
        return None
    task = str(first(row, TASK) or name)
    statement = first(row, STATEMENT)
    return Told(
        task,
        str(first(row, ATTEMPT) or ""),
        (said([_message(one) for one in found]),),
        policy=str(first(row, POLICY) or ""),
        solved=truth(first(row, SOLVED)),
        submission=str(first(row, PATCH) or ""),
        ended=str(first(row, ENDED) or ""),
        instruction=statement if isinstance(statement, str) else "",
    )


def _messages(row: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The first column that is a list of messages; it may be JSON as text."""
    for name in MESSAGES:
        value = row.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise StoreError(f"{name} is no JSON that can be read ({error})") from error
        if isinstance(value, list) and value and all(_speaks(one) for one in value):
            return value
    return None


def _speaks(item: object) -> bool:
    """Is it a message of somebody?"""
    return isinstance(item, Mapping) and bool(item.get("role") or item.get("from"))


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    """Under the names of OpenAI; what a model thought apart stands before what it said, in the tags that Qwen3 has for it."""
    message = {key: value for key, value in given.items() if value is not None}
    role = message.get("role") or message.get("from")
    words = (message.get(name) for name in ("content", "value", "text", "system_prompt"))
    content = next((one for one in words if one), "")
    if thought := message.get("reasoning_content"):
        content = f"<think>\n{thought}\n</think>\n\n{content}" if isinstance(content, str) else content
    return {**message, "role": ROLES.get(str(role), role), "content": content}
