"""Two runs, turn by turn: where do they part, and why there?

recipes, tables, checkpoints -> what is the same, table by table -> the first turn that is not, and what was the same before it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from patchgrad.config import flat, parsed
from patchgrad.errors import Refused
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.inspection.replay import compared, normalised
from patchgrad.runs.phase_id import phase_ids
from patchgrad.runs.reading import setting_of, translated
from patchgrad.sandboxes.programs import changed
from patchgrad.store import Run
from patchgrad.values import Malformed, Rollout, Turn

_WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference: a `cause` is a sentence about what differs although all before it is the same.

    `turn` counts from 1. It is the last one for what came after it, and 0 where there is no attempt at the same task to compare. `left` and
    `right` are what each run has there.
    """

    attempt: str
    turn: int
    cause: str
    left: str = ""
    right: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The attempts of one phase and iteration: how many both runs have, how many of those are the same in all, and who parts first."""

    name: str
    attempts: int
    same: int
    parting: Parting | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`recipes` are the keys that differ, with both values. `tables` stand in the order in which the runs made them.

    `weights` are the checkpoints that both have, and whether they are the same to the bit; `missing` the tables that only one run has;
    `programs` says which programs the sandboxes of the second have otherwise, where both runs kept theirs; `damaged` are sentences about
    what cannot be read and was left out.
    """

    recipes: Sequence[tuple[str, str, str]]
    tables: Sequence[Table]
    weights: Sequence[tuple[str, bool]]
    missing: Sequence[str] = field(default=())
    programs: str = ""
    damaged: Sequence[str] = field(default=())

    @property
    def parting(self) -> tuple[str, Parting] | None:
        """The first table in which the runs part, and where."""
        return next(((table.name, table.parting) for table in self.tables if table.parting is not None), None)

    @property
    def same(self) -> bool:
        """Are all attempts and all weights the same that both have, and can all be read?"""
        return self.parting is None and not self.damaged and all(same for _, same in self.weights)


def compare(left: Run, right: Run) -> Comparison:
    """Holds two runs, or two evaluations, against each other. A damaged attempt or table is told and left out."""
    damaged = Refused()
    names = list(dict.fromkeys([*_tables(left), *_tables(right)]))
    rows = [run.rollouts.rows(columns=["phase", "iteration"], refuse=damaged) for run in (left, right)]
    here, there = ({(row["phase"], row["iteration"]) for row in of} for of in rows)
    found = [_table(left, right, *name, damaged) for name in names if name in here & there]
    missing = [f"{phase}-{iteration}" for phase, iteration in names if (phase, iteration) in here ^ there]
    told = list(dict.fromkeys(damaged.sentences))
    return Comparison(_recipes(left, right), found, _weights(left.folder, right.folder), missing, _programs(left, right), told)


def _tables(run: Run) -> Iterator[tuple[str, int]]:
    """The tables of a run in the order in which it makes them."""
    setting, measured = setting_of(run), 0
    if not isinstance(setting, Recipe):
        yield "evaluate", 0
        return
    yield "demonstrations", 0
    for phase in phase_ids(setting):
        if phase.evaluates:
            measured += 1
            yield f"evaluate-{measured}", 0
        elif phase.trains:
            yield phase.trained, phase.iteration


def _recipes(left: Run, right: Run) -> list[tuple[str, str, str]]:
    here, there = (translated(flat(parsed(run.recipe))) for run in (left, right))
    keys = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
    return [(key, str(here.get(key, "")), str(there.get(key, ""))) for key in keys]


def _programs(left: Run, right: Run) -> str:
    here, there = (run.about.read().get("sandbox", {}).get("programs", {}) for run in (left, right))
    return changed(here, there) if here and there else ""


def _weights(left: Path, right: Path) -> list[tuple[str, bool]]:
    here, there = ({path.parent.name: path for path in sorted(run.glob(f"checkpoints/*/{_WEIGHTS}"))} for run in (left, right))
    return [(name, here[name].read_bytes() == there[name].read_bytes()) for name in here if name in there]


def _table(left: Run, right: Run, phase: str, iteration: int, damaged: Refused) -> Table:
    here, there = ({one.trajectory.id: one for one in run.rollouts.read(phase, iteration, damaged)} for run in (left, right))
    rows = [run.rollouts.rows(phase, iteration, ["attempt"], damaged) for run in (left, right)]
    names = [name for name in here if name in there]
    found = [parting for name in names if (parting := parted(here[name], there[name])) is not None]
    only = sorted({row["attempt"] for row in rows[0]} ^ {row["attempt"] for row in rows[1]})
    first = min(found, key=lambda one: one.turn, default=Parting(only[0], 0, "only one of the runs has this attempt") if only else None)
    return Table(f"{phase}-{iteration}", len(names), len(names) - len(found), first)


def parted(left: Rollout, right: Rollout) -> Parting | None:
    """Where two attempts of one name part, if they do: at the first thing that differs, in the order in which it came to be."""
    name = left.trajectory.id
    if left.task.digest() != right.task.digest():
        return Parting(name, 0, "its tasks differ", left.task.id, right.task.id)
    turns = list(zip(left.trajectory.turns, right.trajectory.turns, strict=False))
    for number, (here, there) in enumerate(turns, 1):
        if here.address != there.address and (found := _in_a_turn(here, there)) is not None:
            return Parting(name, number, *found)
    return _at_the_end(left, right, len(turns))


def _at_the_end(left: Rollout, right: Rollout, turns: int) -> Parting | None:
    for cause, of in _ENDINGS:
        if of(left) != of(right):
            return Parting(left.trajectory.id, turns, cause, str(of(left)), str(of(right)))
    return None


_ENDINGS: Sequence[tuple[str, Callable[[Rollout], Any]]] = (
    ("one of them ended, and the other went on", lambda one: f"{len(one.trajectory.turns)} turns, {one.trajectory.stop}"),
    ("the same turns form other token streams", lambda one: [len(segment.turns) for segment in one.trajectory.segments]),
    ("the same turns left another submission", lambda one: one.trajectory.submission),
    ("the same submission was judged otherwise", lambda one: [(test.id, test.status) for test in one.verdict.tests]),
    ("it is evidence of tampering in one of them", lambda one: one.verdict.tamper),
    ("the same verdict has another reward", lambda one: one.reward),
)


def _in_a_turn(left: Turn, right: Turn) -> tuple[str, str, str] | None:
    """Why two turns differ whose attempts were the same before; nothing where only what is told of them does."""
    if left.context.tolist() != right.context.tolist():
        return "the policy was asked something else: the prompt has other tokens", f"{len(left.context)} ids", f"{len(right.context)} ids"
    here, there = left.action, right.action
    if here.token_ids.tolist() != there.token_ids.tolist() or here.text != there.text:
        return _drawn(left, right), here.text, there.text
    if here.logprobs.tolist() != there.logprobs.tolist():
        return f"the same tokens were drawn, with log-probabilities up to {_apart(left, right)[1]:.1e} apart", here.text, ""
    if left.call != right.call:
        return "the same words were read as another call", _called(left), _called(right)
    if left.observation.content != right.observation.content or left.observation.exit_code != right.observation.exit_code:
        return _answered(left, right), left.observation.content, right.observation.content
    if left.state != right.state:
        return "the same call left other files", _called(left), ""
    if left.shell != right.shell:
        return "the same call left another shell", left.shell, right.shell
    return None if here.version == there.version else ("they were drawn by other versions", str(here.version), str(there.version))


def _drawn(left: Turn, right: Turn) -> str:
    count, apart = _apart(left, right)
    if not count:
        return "after the same prompt the policy drew another first token"
    told = (
        "the same log-probabilities, so chance or the way of sampling differs"
        if apart == 0
        else f"log-probabilities up to {apart:.1e} apart"
    )
    return f"the policy drew other tokens after the same prompt: the {count} that are the same have {told}"


def _apart(left: Turn, right: Turn) -> tuple[int, float]:
    """How many tokens both drew before they drew others, and how far the log-probabilities of those are apart at most."""
    here, there = left.action, right.action
    count = min(len(here.token_ids), len(there.token_ids), len(here.logprobs), len(there.logprobs))
    common = int(np.cumprod(here.token_ids[:count] == there.token_ids[:count]).sum())
    return common, float(np.abs(here.logprobs[:common] - there.logprobs[:common]).max(initial=0.0))


def _answered(left: Turn, right: Turn) -> str:
    here, there = left.observation.exit_code, right.observation.exit_code
    if here != there:
        return f"the same call, in the same files, ended with exit code {here} and {there}"
    if compared(left.observation, right.observation) == "alike":
        return "the sandbox gave the same answer but for what changes by itself, such as a time"
    first = next(
        (f": {a.strip()[:80]!r} and {b.strip()[:80]!r}" for a, b in zip(*map(_lines, (left, right)), strict=False) if a != b),
        ": one goes on where the other ends",
    )
    return f"the sandbox answered the same call, in the same files, otherwise{first}"


def _lines(turn: Turn) -> list[str]:
    return normalised(turn.observation.content).splitlines()


def _called(turn: Turn) -> str:
    return turn.call.message if isinstance(turn.call, Malformed) else f"{turn.call.tool} {turn.call.arguments}"
