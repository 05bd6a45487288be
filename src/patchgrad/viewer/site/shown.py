"""One attempt with all that a page shows of it: turns, their tokens with log-probabilities, the verdict, and its relatives."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from patchgrad.errors import Refused, StoreError, one_of_many
from patchgrad.store import Run
from patchgrad.values import Action, Call, Floats, Repository, Rollout, TrainedTurn, Turn, Verdict
from patchgrad.viewer.site.changes import changes

LONG = 200_000
"""Letters of an observation that come with an attempt; the rest is asked for."""


def shown(run: Run, attempt: str) -> dict[str, Any]:
    """The attempt of this id; `StoreError` where there is none, or where it cannot be read."""
    phase, iteration, rollout = _found(run, attempt)
    trained = _trained(run, phase, iteration, attempt).get(attempt, {})
    return {"phase": phase, "iteration": iteration, **_attempt(run, rollout, LONG, trained)}


def whole(run: Run, phase: str, iteration: int) -> Iterator[dict[str, Any]]:
    """All attempts of a table, whole; one that cannot be read is left out."""
    trained = _trained(run, phase, iteration)
    for rollout in run.rollouts.read(phase, iteration, Refused()):
        yield {
            "phase": phase,
            "iteration": iteration,
            **_attempt(run, rollout, sys.maxsize, trained.get(rollout.trajectory.id, {})),
        }


def observation(run: Run, attempt: str, number: int) -> str:
    """What a turn was answered, whole; `StoreError` where there is no such turn."""
    turns = _found(run, attempt)[2].trajectory.turns
    if not 1 <= number <= len(turns):
        raise StoreError(f"The attempt {attempt} has no turn {number}.")
    return turns[number - 1].observation.content


def _found(run: Run, attempt: str) -> tuple[str, int, Rollout]:
    phase, number = place_of(attempt)
    rows = _placed(run, attempt, phase, number) or _placed(run, attempt)  # in the table that its name tells, or in any
    if not rows:
        raise StoreError(f"{run.folder} has no attempt {attempt}.")
    place, refused = rows[0], Refused()
    found = run.rollouts.read(place["phase"], place["iteration"], refused, attempt)
    if not found:
        raise StoreError(next(iter(refused.sentences), f"The attempt {attempt} cannot be read."))
    return place["phase"], place["iteration"], found[0]


def _placed(run: Run, attempt: str, phase: str = "*", iteration: int | None = None) -> list[dict[str, Any]]:
    columns = ("phase", "iteration", "attempt")
    return run.rollouts.rows(phase, iteration, columns, Refused(), attempt) if attempt and "/" not in phase else []


def place_of(attempt: str) -> tuple[str, int | None]:
    """The phase and the iteration that a name tells: `stage1/3/0/2` is of `stage1`, 3."""
    phase, *rest = attempt.split("/")
    return phase, int(rest[0]) if len(rest) > 2 and rest[0].isdecimal() else None


def _trained(run: Run, phase: str, iteration: int, attempt: str = "") -> dict[str, dict[int, list[TrainedTurn]]]:
    """By attempt and number of the turn, what each update of the attempt's own iteration made of it; nothing of a damaged table."""
    found: dict[str, dict[int, list[TrainedTurn]]] = {}
    with one_of_many(Refused()):
        for one in run.trained.read(phase, iteration, attempt):
            found.setdefault(one.attempt, {}).setdefault(one.turn, []).append(one)
    return found


def _attempt(run: Run, rollout: Rollout, most: int, trained: Mapping[int, list[TrainedTurn]]) -> dict[str, Any]:
    trajectory, verdict = rollout.trajectory, rollout.verdict
    starts, place = set[int](), 0
    for segment in trajectory.segments:
        starts.add(place)
        place += len(segment.turns)
    turns = [
        one
        | {"begins": number in starts, "replayed": number < trajectory.replayed}
        | {"trained": [_read(step, turn.action) for step in trained.get(number + 1, []) if _fits(step, turn.action)]}
        for turn, (number, one) in zip(trajectory.turns, turns_of(run, rollout.task.repository, trajectory.turns, most), strict=True)
    ]
    return {
        "id": trajectory.id,
        "task": trajectory.task,
        "solved": rollout.solved,
        "reward": rollout.reward.value,
        "parts": dict(rollout.reward.parts),
        "stop": trajectory.stop,
        "fault": verdict.fault,
        "tamper": list(verdict.tamper),
        "seconds": trajectory.seconds,
        "origin": trajectory.origin,
        "asides": trajectory.asides,
        "instruction": rollout.task.instruction,
        "submission": trajectory.submission,
        "tests": tests_of(verdict),
        "turns": turns,
    }


def tests_of(verdict: Verdict) -> list[dict[str, Any]]:
    """What became of each hidden test."""
    return [{"id": test.id, "expected": test.expected, "status": test.status, "satisfied": test.satisfied} for test in verdict.tests]


def turns_of(run: Run, repository: Repository, turns: tuple[Turn, ...], most: int, since: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The turns from this place on, each with its place: what was said and answered, and what that did to the files."""
    spell = _spelling(run)
    for number, changed in enumerate(changes(run, repository, turns, since), since):
        yield number, _turn(number, turns[number], spell, most) | {"changes": changed}


def _turn(number: int, turn: Turn, spell: Any, most: int) -> dict[str, Any]:
    action, call, answer = turn.action, turn.call, turn.observation
    said = {"tool": call.tool, "arguments": call.arguments} if isinstance(call, Call) else {"malformed": call.kind}
    return {
        "number": number + 1,
        "text": action.text,
        "finish": action.finish,
        "tokens": action.tokens,
        "version": action.version,
        "spans": [list(span) for span in action.spans],
        "context": len(turn.context),
        **_tokens(action, spell),
        **said,
        "observation": answer.content[:most],
        "left": max(0, len(answer.content) - most),
        "exit_code": answer.exit_code,
        "failure": answer.failure,
        "directory": answer.tool_state.directory,
        "seconds": answer.seconds,
    }


def _tokens(action: Action, spell: Any) -> dict[str, Any]:
    """The ids that were drawn, how each is spelt, and its log-probability; nothing where a policy tells text alone."""
    if not action.trainable:
        return {"ids": [], "pieces": [], "logprobs": []}
    ids = action.token_ids.tolist()
    return {"ids": ids, "pieces": spell(ids), "logprobs": np.round(action.logprobs.astype(np.float64), 4).tolist()}


def _fits(one: TrainedTurn, action: Action) -> bool:
    """Is a row of this action? A table that was brought from elsewhere may not be."""
    return len(one.advantages) == len(action.logprobs) and not np.isnan(one.advantages).all()


def _read(one: TrainedTurn, action: Action) -> dict[str, Any]:
    """An update's figures of a turn, null where a token was not trained. What is alike for all tokens is one number, and `old` is "sampled"
    where it is the sampler's.
    """
    kept = ~np.isnan(one.advantages)
    told: dict[str, Any] = {name: _rounded(getattr(one, name)) for name in ("logprobs", "entropies")}
    for name in ("advantages", "weights"):
        values = getattr(one, name)
        told[name] = _digits(float(values[kept][0])) if (values[kept] == values[kept][0]).all() else _rounded(values)
    told["old"] = "sampled" if np.array_equal(one.old[kept], action.logprobs[kept]) else _rounded(one.old)
    return {"update": one.update, "version": one.version, **told}


def _rounded(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else _digits(value) for value in values.tolist()]


def _digits(value: float) -> float:
    """Four significant digits: a weight may be a hundred-thousandth."""
    return float(f"{value:.4g}")


def _spelling(run: Run) -> Any:
    """From ids to text, a piece for each, by the tokenizer of the run's policies; ids in brackets without one."""
    for folder in reversed(run.checkpoints.all()):
        if (folder / "tokenizer.json").is_file():
            return _spelt(folder / "tokenizer.json")
    return lambda ids: [f"[{one}]" for one in ids]


@cache
def _spelt(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
        from tokenizers.decoders import DecodeStream
    except ModuleNotFoundError:
        return lambda ids: [f"[{one}]" for one in ids]
    tokenizer = Tokenizer.from_file(str(path))

    def pieces(ids: Sequence[int]) -> list[str]:
        """Bytes of a letter that are not whole yet are shown with the token that completes it."""
        stream = DecodeStream(skip_special_tokens=False)
        return [stream.step(tokenizer, one) or "" for one in ids]

    return pieces


def sentence(error: Exception) -> dict[str, str]:
    """What a page shows in place of what cannot be read."""
    return {"error": str(error)}
