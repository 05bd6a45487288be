"""Attempts as ATIF 1.8, the trajectories of Harbor: a file each, with token ids and log-probabilities where nothing is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchgrad import __version__
from patchgrad.grading.predictions import file_name
from patchgrad.runs.exports.conversations import Conversation, Exchange
from patchgrad.runs.exports.hidden import Hidden
from patchgrad.store import files
from patchgrad.values import Call

SCHEMA = "ATIF-v1.8"


def write(told: Conversation, folder: Path, hidden: Hidden) -> int:
    """`FOLDER/ATTEMPT.json`; how many it wrote."""
    trajectory = told.rollout.trajectory
    whole = made(told)
    shown = hidden.everywhere(whole)
    if shown != whole:
        for step in shown["steps"]:
            for key in ("prompt_token_ids", "completion_token_ids", "logprobs"):
                step.get("metrics", {}).pop(key, None)  # whoever has the tokenizer reads them
    folder.mkdir(parents=True, exist_ok=True)
    files.put(folder / f"{file_name(trajectory.id)}.json", (json.dumps(shown) + "\n").encode())
    return 1


def made(told: Conversation) -> dict[str, Any]:
    """The trajectory as Harbor's schema has it; what that has no field for is below `extra`."""
    rollout, trajectory = told.rollout, told.rollout.trajectory
    steps = [step for exchange in told.exchanges for step in _steps(exchange)]
    usage = {
        "total_prompt_tokens": sum(len(turn.context) for turn in trajectory.turns),
        "total_completion_tokens": sum(turn.action.tokens for turn in trajectory.turns),
        "total_steps": len(steps),
    }
    verdict = {
        "solved": None if rollout.broken else rollout.solved,
        "reward": rollout.reward.value,
        "stop": trajectory.stop,
        "fault": rollout.verdict.fault,
    }
    return {
        "schema_version": SCHEMA,
        "trajectory_id": trajectory.id,
        "session_id": trajectory.id,
        "agent": {"name": "patchgrad", "version": __version__},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": usage,
        "extra": {
            "task": trajectory.task,
            "phase": told.phase,
            "iteration": told.iteration,
            **verdict,
            "submission": trajectory.submission,
            "origin": trajectory.origin,
            "proved": told.proved,
        },
    }


def _steps(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """The messages that were said for the first time, and the agent's turn with its answer.

    An observation stands with the turn that it answers, so of what was said later it is not said again.
    """
    turn = exchange.turn
    copied = {"is_copied_context": True} if exchange.replayed else {}
    if exchange.begins:
        for message in exchange.messages:
            yield {"source": "system" if message.role == "system" else "user", "message": message.content, **copied}
    action, call, name = turn.action, turn.call, turn.address[:16]
    tool = (
        {"tool_calls": [{"tool_call_id": name, "function_name": call.tool, "arguments": _arguments(call)}]}
        if isinstance(call, Call)
        else {}
    )
    ids = {
        "prompt_token_ids": turn.context.tolist(),
        "completion_token_ids": action.token_ids.tolist(),
        "logprobs": action.logprobs.tolist(),
    }
    metrics = {"completion_tokens": action.tokens, **(ids if action.trainable else {})}
    source = {"source_call_id": name} if isinstance(call, Call) else {}
    extra: dict[str, Any] = {
        "version": action.version,
        "failure": turn.observation.failure,
        "exit_code": turn.observation.exit_code,
        "state": turn.state,
    }
    extra |= {"said": [message.content for message in exchange.messages]} if not exchange.begins else {}
    yield {
        "source": "agent",
        "message": action.text,
        **tool,
        "observation": {"results": [{**source, "content": turn.observation.content}]},
        "metrics": metrics,
        "llm_call_count": 1,
        "extra": extra,
        **copied,
    }


def _arguments(call: Call) -> dict[str, str]:
    """The shell's are a command; those of other tools are text that the tool reads."""
    return {"command" if call.tool == "shell" else "arguments": call.arguments}
