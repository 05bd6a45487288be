"""Attempts as messages in one parquet file, as datasets of the hub have them: a row an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchgrad.runs.exports.conversations import Conversation
from patchgrad.runs.exports.hidden import Hidden
from patchgrad.store import files
from patchgrad.store.table import readable


def rows(told: Conversation, hidden: Hidden) -> list[dict[str, Any]]:
    """A row for each context that the attempt had: one, unless its agent began anew. An attempt that broke before its first turn has one
    without messages.
    """
    rollout, found = told.rollout, list[list[dict[str, str]]]()
    for exchange in told.exchanges:
        if exchange.begins:
            found.append([])
        found[-1] += [{"role": message.role, "content": message.content} for message in exchange.messages]
        found[-1].append({"role": "assistant", "content": exchange.turn.action.text})
    about = {
        "instance_id": rollout.task.id,
        "trajectory_id": rollout.trajectory.id,
        "resolved": None if rollout.broken else rollout.solved,
        "reward": None if rollout.broken else float(rollout.reward.value),
        "exit_status": rollout.trajectory.stop,
        "model_patch": rollout.trajectory.submission,
        "phase": told.phase,
        "iteration": told.iteration,
        "turns": len(rollout.trajectory.turns),
    }
    return [hidden.everywhere({**about, "context": number, "messages": messages}) for number, messages in enumerate(found or [[]])]


def write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """All rows, in one file; text that is no UTF-8 has question marks in its place."""
    import pyarrow
    import pyarrow.parquet

    message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
    kinds = {
        **dict.fromkeys(("instance_id", "trajectory_id"), pyarrow.string()),
        "resolved": pyarrow.bool_(),
        "reward": pyarrow.float64(),
        **dict.fromkeys(("exit_status", "model_patch", "phase"), pyarrow.string()),
        **dict.fromkeys(("iteration", "turns", "context"), pyarrow.int64()),
        "messages": pyarrow.list_(message),
    }
    table = pyarrow.Table.from_pylist([readable(row) for row in rows], schema=pyarrow.schema(list(kinds.items())))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.put(path, lambda partial: pyarrow.parquet.write_table(table, partial, compression="zstd"))
