"""Attempts as logs of inspect_ai, one for each phase and iteration: `inspect view --log-dir FOLDER` shows them.

A log is a zip of JSON: `header.json`, a file for each sample, and summaries. A task is a sample, and its attempts are epochs.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchgrad import __version__
from patchgrad.evaluation import over_tasks
from patchgrad.grading.predictions import file_name
from patchgrad.runs.exports.conversations import Conversation
from patchgrad.runs.exports.hidden import Hidden
from patchgrad.store import files
from patchgrad.values import digest

SCORER, MODEL = "hidden tests", "patchgrad"


def write(told: Sequence[Conversation], path: Path, run: str, created: str, hidden: Hidden) -> None:
    """One log of the attempts of a phase and an iteration, of the run of this name."""
    epochs: Counter[str] = Counter()
    samples = []
    for one in told:
        epochs[one.rollout.task.id] += 1
        samples.append(hidden.everywhere(_sample(one, epochs[one.rollout.task.id])))
    spec = _spec(run, f"{told[0].phase} {told[0].iteration}", created, len(epochs), max(epochs.values()))
    plan = {"name": "plan", "steps": [], "config": {}}
    stats = {"started_at": created, "completed_at": created, "model_usage": _usage(told)}
    parts = {
        "_journal/start.json": {"version": 2, "eval": spec, "plan": plan},
        **{f"samples/{file_name(one['id'])}_epoch_{one['epoch']}.json": one for one in samples},
        "summaries.json": [_summary(one) for one in samples],
        "header.json": {"version": 2, "status": "success", "eval": spec, "plan": plan, "results": _results(told), "stats": stats},
    }
    files.put(path, lambda partial: _zipped(partial, parts))


def _zipped(path: Path, parts: dict[str, Any]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        for name, part in parts.items():
            log.writestr(name, json.dumps(part))


def _sample(told: Conversation, epoch: int) -> dict[str, Any]:
    rollout, messages = told.rollout, list[dict[str, str]]()
    for exchange in told.exchanges:
        messages += [{"role": message.role, "content": message.content} for message in exchange.messages]
        messages.append({"role": "assistant", "content": exchange.turn.action.text})
    broken = {"error": _error(rollout.verdict.fault)} if rollout.verdict.fault else {}
    score: dict[str, Any] = {
        "value": "C" if rollout.solved else "I",
        "answer": rollout.trajectory.submission,
        "explanation": _tests(told),
        "history": [],
    }
    about = {"attempt": rollout.trajectory.id, "stop": rollout.trajectory.stop, "reward": rollout.reward.value}
    return {
        "id": rollout.task.id,
        "epoch": epoch,
        "input": rollout.task.instruction,
        "target": "",
        "messages": [{"id": digest(rollout.trajectory.id, str(number))[:20], **one} for number, one in enumerate(messages)],
        "output": {"model": MODEL, "choices": [], "completion": rollout.trajectory.submission},
        "scores": {} if broken else {SCORER: score},
        "metadata": about,
        "store": {},
        "events": [],
        "model_usage": _usage([told]),
        "attachments": {},
        "total_time": rollout.trajectory.seconds,
        **broken,
    }


def _tests(told: Conversation) -> str:
    """What the hidden tests say: `failed: tests/test_a.py::test_b`."""
    failed = [test.id for test in told.rollout.verdict.tests if not test.satisfied]
    return f"failed: {', '.join(failed)}" if failed else "all hold" if told.rollout.verdict.tests else "none ran"


def _error(fault: str) -> dict[str, str]:
    return {"message": fault, "traceback": "", "traceback_ansi": ""}


def _summary(sample: dict[str, Any]) -> dict[str, Any]:
    kept = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "total_time")
    error = {"error": sample["error"]["message"]} if "error" in sample else {}
    return {**{key: sample[key] for key in kept}, **error, "completed": True, "message_count": len(sample["messages"])}


def _spec(run: str, name: str, created: str, tasks: int, attempts: int) -> dict[str, Any]:
    return {
        "eval_id": digest(run, name, created)[:22],
        "run_id": digest(run, created)[:22],
        "created": created,
        "task": f"{run} {name}",
        "task_id": digest(run, name)[:22],
        "task_version": 0,
        "dataset": {"name": run, "samples": tasks},
        "model": MODEL,
        "config": {"epochs": attempts},
        "packages": {"patchgrad": __version__},
        "scorers": [{"name": SCORER}],
    }


def _results(told: Sequence[Conversation]) -> dict[str, Any]:
    """Pass@1 with its error over tasks, as `accuracy` and `stderr`; attempts that broke count for neither."""
    solved: dict[str, list[bool]] = {}
    for one in told:
        if not one.rollout.broken:
            solved.setdefault(one.rollout.task.id, []).append(one.rollout.solved)
    found = over_tasks([sum(each) / len(each) for each in solved.values()])
    metrics = {"accuracy": found.mean, "stderr": found.error}
    score = {
        "name": SCORER,
        "scorer": SCORER,
        "params": {},
        "metrics": {name: {"name": name, "value": value, "params": {}} for name, value in metrics.items() if value == value},
    }
    return {"total_samples": len(told), "completed_samples": sum(map(len, solved.values())), "scores": [score]}


def _usage(told: Sequence[Conversation]) -> dict[str, dict[str, int]]:
    """Tokens of attempts: those that the policy read, each counted once however many turns it stood before, and those that it sampled."""
    turns = [turn for one in told for turn in one.rollout.trajectory.turns]
    read, sampled = sum(len(turn.context) for turn in turns), sum(turn.action.tokens for turn in turns)
    return {MODEL: {"input_tokens": read, "output_tokens": sampled, "total_tokens": read + sampled}}
