"""What a run is at, by what its files say: attempts that began and ended since the last commit, and how old the newest fact is."""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgrad.errors import PatchgradError
from patchgrad.viewer.site.recent import Recent, newest
from patchgrad.viewer.words import counted


class Now:
    """What the attempts since the last commit, the recipe and the newest file tell."""

    def __init__(self, recent: Recent) -> None:
        self._recent, self._run = recent, recent.run

    def told(self) -> dict[str, Any]:
        """A sentence, when the newest file was written, and how many seconds ago; of a run that is at its end no time is told."""
        with self._recent.lock:
            try:
                self._recent.look()
                step, last = self._recent.step, last_phase(self._recipe)
            except (PatchgradError, OSError, ValueError):
                return {"said": "Its files cannot be read just now.", "newest": None, "age": None}
            begun = list(self._recent.begun())
        if self._run.evaluates and (self._run.folder / "report.json").exists():
            return {"said": "Its report is written.", "newest": None, "age": None}
        if step and step == last and not begun:
            return {"said": f"Its last phase, {step}, is committed.", "newest": None, "age": None}
        written = newest(self._files())
        return {"said": " ".join(self._sentences(step, begun)), "newest": written, "age": max(0.0, time.time() - written)}

    def _sentences(self, step: str, begun: Sequence[tuple[str, bool]]) -> Iterator[str]:
        """`stage1/3: 40 of 64 attempts ended, 5 more begun since stage1-2 was committed.`"""
        planned, since = _planned(self._recipe), f" since {step} was committed" if step else ""
        for label in dict.fromkeys(_label(attempt) for attempt, _ in begun):
            own = [(attempt, ended) for attempt, ended in begun if _label(attempt) == label]
            count = Counter("+" in attempt.rpartition("/")[2] for attempt, ended in own if ended)
            most = planned.get(label.partition("/")[0])
            told = [f"{count[False]} of {counted(most, 'attempt')} ended" if most else f"{counted(count[False], 'attempt')} ended"]
            told += [f"{counted(count[True], 'fork')} ended"] if count[True] else []
            more = sum(not ended for _, ended in own)
            told += [f"{more} more begun"] if more else []
            yield f"{label}{': ' if label else ''}{', '.join(told)}{since}."
        if not begun:
            yield f"No attempt has begun{since}."

    @cached_property
    def _recipe(self) -> Mapping[str, Any]:
        return tomllib.loads(self._run.recipe)

    def _files(self) -> list[Path]:
        run = self._run
        return [
            *run.journal.records.files()[-1:],
            run.folder / "rollouts",  # as old as its newest table
            *(run.folder / name for name in ("metrics.jsonl", "report.json", "state.json")),
        ]


def _label(attempt: str) -> str:
    """`stage1/3` of `stage1/3/0/2`."""
    return attempt.rpartition("/")[0].rpartition("/")[0]


def _planned(recipe: Mapping[str, Any]) -> dict[str, int]:
    """How many attempts the recipe plans for an iteration of each phase, where it says so; forks come on top."""
    found = {f"stage{number}": stage.get("sampling") for number, stage in enumerate(recipe.get("stages") or (), 1)}
    sizes = {"rft": recipe.get("rft"), **found}
    told = {name: (size.get("tasks"), size.get("attempts")) for name, size in sizes.items() if isinstance(size, Mapping)}
    return {name: tasks * attempts for name, (tasks, attempts) in told.items() if isinstance(tasks, int) and isinstance(attempts, int)}


def last_phase(recipe: Mapping[str, Any]) -> str:
    """The phase at which a run of this recipe is at its end."""
    stages = len(recipe.get("stages") or ())
    return f"evaluate-stage{stages}" if stages else "evaluate-rft"
