"""Rollouts as parquet: one row an attempt, readable by pandas, DuckDB and datasets without patchgrad.

`conversation` is a list of turns: what the agent wrote, what it called, what came back. `trajectory`, `verdict`, `reward_parts` and
`judgements` are JSON; the trajectory names its turns by address, so tokens stand once, in the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgrad.errors import MissingDependency, Refuse, StoreError, stop
from patchgrad.store.codec import plain, value
from patchgrad.store.files import put
from patchgrad.values import Call, Judgement, Malformed, Reward, Rollout, Segment, Task, Trajectory, Turn, Verdict

if TYPE_CHECKING:
    import pyarrow as pa

TURN = {
    "text": "string",
    "tool": "string",
    "arguments": "string",
    "malformed": "string",
    "observation": "string",
    "exit_code": "int64",
    "failure": "string",
    "directory": "string",
    "tokens": "int64",
    "logprob": "double",
    "version": "int64",
    "seconds": "double",
}
COLUMNS = {
    "task": "string",
    "attempt": "string",
    "phase": "string",
    "iteration": "int64",
    "policy_version": "int64",
    "solved": "bool",
    "reward": "double",
    "stop": "string",
    "fault": "string",
    "turns": "int64",
    "malformed": "int64",
    "context_tokens": "int64",
    "action_tokens": "int64",
    "seconds": "double",
    "instruction": "string",
    "submission": "string",
    "trajectory": "string",
    "verdict": "string",
    "reward_parts": "string",
    "judgements": "string",
}


def library() -> Any:
    """pyarrow with its parquet; `MissingDependency` where it is not installed."""
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingDependency("Rollouts are stored as parquet, which needs pyarrow: pip install 'patchgrad[train]'.") from None
    return pyarrow


def _schema(arrow: Any) -> pa.Schema:
    turn = arrow.struct([(name, arrow.type_for_alias(kind)) for name, kind in TURN.items()])
    columns = [(name, arrow.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    made: pa.Schema = arrow.schema([*columns, ("conversation", arrow.list_(turn))], metadata={"patchgrad.format": "1"})
    return made


def write(path: Path, phase: str, iteration: int, rollouts: Sequence[Rollout]) -> None:
    """One file, whole or not at all."""
    arrow = library()
    table = arrow.Table.from_pylist([readable(_row(phase, iteration, rollout)) for rollout in rollouts], schema=_schema(arrow))
    put(path, lambda partial: arrow.parquet.write_table(table, partial, compression="zstd"))


def read(paths: Iterable[Path], columns: Sequence[str] | None, refuse: Refuse = stop, attempt: str = "") -> list[dict[str, Any]]:
    """The rows of these files as dicts, in order, or of one attempt alone; what is wrong with one of the files goes to `refuse`."""
    arrow = library()
    rows: list[dict[str, Any]] = []
    for path in paths:
        try:
            found = arrow.parquet.read_table(path, columns=columns and [*columns])
            if attempt:  # before rows become dicts, which takes most of the time
                found = found.filter(arrow.compute.equal(found.column("attempt"), attempt))
            rows += found.to_pylist()
        except (OSError, arrow.ArrowException) as error:
            refuse(StoreError(f"{path} is not a table that patchgrad wrote: {str(error).splitlines()[0]}."))
    return rows


def rollout(row: dict[str, Any], task: Task, turn: Callable[[str], Turn]) -> Rollout:
    """The value that a row was made from; `turn` finds a turn by its address."""
    kept = json.loads(row["trajectory"])
    segments = tuple(Segment(tuple(turn(address) for address in addresses)) for addresses in kept.pop("segments"))
    trajectory = Trajectory(segments=segments, **kept)
    verdict = value(Verdict, json.loads(row["verdict"]))
    judgements = tuple(value(Judgement, one) for one in json.loads(row.get("judgements") or "[]"))  # which older tables do not have
    return Rollout(task, trajectory, verdict, Reward(row["reward"], json.loads(row["reward_parts"])), judgements)


def _row(phase: str, iteration: int, rollout: Rollout) -> dict[str, Any]:
    trajectory, turns = rollout.trajectory, rollout.trajectory.turns
    kept = {
        "id": trajectory.id,
        "task": trajectory.task,
        "segments": [[turn.address for turn in segment.turns] for segment in trajectory.segments],
        "stop": trajectory.stop,
        "submission": trajectory.submission,
        "seconds": trajectory.seconds,
        "origin": trajectory.origin,
        **({"asides": trajectory.asides} if trajectory.asides else {}),
        "replayed": trajectory.replayed,
    }
    return {
        "task": trajectory.task,
        "attempt": trajectory.id,
        "phase": phase,
        "iteration": iteration,
        "policy_version": turns[-1].action.version if turns else None,
        "solved": rollout.solved,
        "reward": rollout.reward.value,
        "stop": trajectory.stop,
        "fault": rollout.verdict.fault,
        "turns": len(turns),
        "malformed": sum(isinstance(turn.call, Malformed) for turn in turns),
        "context_tokens": sum(len(turn.context) for turn in turns) + sum(turn.action.tokens for turn in turns[: trajectory.replayed]),
        "action_tokens": sum(turn.action.tokens for turn in turns[trajectory.replayed :]),
        "seconds": trajectory.seconds,
        "instruction": rollout.task.instruction,
        "submission": trajectory.submission,
        "trajectory": json.dumps(kept),
        "verdict": json.dumps(plain(rollout.verdict)),
        "reward_parts": json.dumps(dict(rollout.reward.parts)),
        "judgements": json.dumps([plain(judgement) for judgement in rollout.judgements]),
        "conversation": [_turn(turn) for turn in turns],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    called = turn.call if isinstance(turn.call, Call) else None
    return {
        "text": turn.action.text,
        "tool": called.tool if called else None,
        "arguments": called.arguments if called else None,
        "malformed": turn.call.kind if isinstance(turn.call, Malformed) else None,
        "observation": turn.observation.content,
        "exit_code": turn.observation.exit_code,
        "failure": turn.observation.failure,
        "directory": turn.observation.tool_state.directory,
        "tokens": turn.action.tokens,
        "logprob": float(turn.action.logprobs.mean(dtype="float64")) if len(turn.action.logprobs) else None,
        "version": turn.action.version,
        "seconds": turn.observation.seconds,
    }


def readable(item: Any) -> Any:
    """Text that parquet can hold: bytes that were no UTF-8 become question marks here, and stay exact in the journal."""
    if isinstance(item, str):
        return item.encode(errors="replace").decode()
    if isinstance(item, dict):
        return {key: readable(part) for key, part in item.items()}
    return [readable(part) for part in item] if isinstance(item, list) else item
