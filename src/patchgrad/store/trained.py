"""What optimiser steps made of each token, as parquet: one row a turn and step, beside the table of the attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from patchgrad.errors import StoreError
from patchgrad.store import table
from patchgrad.store.files import put, writing
from patchgrad.store.lock import WriterLock
from patchgrad.values import TrainedTurn, floats

NAMES = {"attempt": "string", "turn": "int64", "update": "int64", "version": "int64"}
NUMBERS = ("advantages", "weights", "old", "logprobs", "entropies")
COLUMNS = ("phase", "iteration", *NAMES, *NUMBERS)


class Trained:
    """`trained/PHASE-ITERATION.parquet`. Lists have an entry for each action token of the turn, null where it was not trained."""

    def __init__(self, folder: Path, lock: WriterLock) -> None:
        self._folder, self._lock = folder / "trained", lock

    def write(self, phase: str, iteration: int, turns: Sequence[TrainedTurn]) -> None:
        """The table of this phase and iteration, whole or not at all; a second call replaces it."""
        self._lock.require()
        arrow = table.library()
        columns = [arrow.array([phase] * len(turns), arrow.string()), arrow.array([iteration] * len(turns), arrow.int64())]
        columns += [arrow.array([getattr(turn, name) for turn in turns], arrow.type_for_alias(kind)) for name, kind in NAMES.items()]
        ends = np.cumsum([0, *(len(turn.advantages) for turn in turns)]).astype(np.int32)
        for name in NUMBERS:
            values = np.concatenate([floats([]), *(getattr(turn, name) for turn in turns)])
            columns.append(arrow.ListArray.from_arrays(arrow.array(ends), arrow.array(values, arrow.float32(), mask=np.isnan(values))))
        made = arrow.table(columns, list(COLUMNS))
        with writing(self._folder.parent):
            self._folder.mkdir(exist_ok=True)
        put(self._path(phase, iteration), lambda partial: arrow.parquet.write_table(made, partial, compression="zstd"))

    def read(self, phase: str, iteration: int, attempt: str = "") -> list[TrainedTurn]:
        """The rows of a table in the order of the steps, or those of one attempt; none where nothing was kept."""
        path, arrow = self._path(phase, iteration), table.library()
        if not path.exists():
            return []
        try:
            chosen = [("attempt", "=", attempt)] if attempt else None
            rows = arrow.parquet.read_table(path, columns=[*NAMES, *NUMBERS], filters=chosen).to_pylist()
            return [TrainedTurn(**row | {name: floats(row[name]) for name in NUMBERS}) for row in rows]
        except (OSError, KeyError, TypeError, ValueError, arrow.ArrowException) as error:
            raise StoreError(f"{path} is not a table that patchgrad wrote: {str(error).splitlines()[0]}.") from error

    def files(self) -> list[Path]:
        """All tables."""
        return sorted(self._folder.glob("*.parquet"))

    def _path(self, phase: str, iteration: int) -> Path:
        return self._folder / f"{phase}-{iteration:05d}.parquet"
