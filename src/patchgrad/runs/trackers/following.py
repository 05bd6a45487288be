"""A board is filled from a run's folder, whatever of it is new: during a run by a process beside it, and afterwards by `patchgrad track`.

    python -m patchgrad.runs.trackers.following RUN BOARD OPTIONS    looks when its standard input has something, and at its end

How far it has come lies in `RUN/trackers/BOARD.json`, so a run that is resumed goes on in the same place.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import PatchgradError, Refused, StoreError
from patchgrad.runs.trackers.boards.board import Board, Subject, opened
from patchgrad.runs.trackers.points import Point, points
from patchgrad.store import Run, files

TURNS = 40
"""Of an attempt that is told as text."""


@dataclass(slots=True)
class Known:
    """The board's id, and how many points it was told, as they lie in a file."""

    place: Path
    id: str
    told: int

    def one_more(self) -> None:
        """It was told one."""
        self.told += 1
        files.put(self.place, json.dumps({"id": self.id, "told": self.told}).encode())


class Follower:
    """Tells a board what it was not told yet."""

    def __init__(self, run: Run, board: Board, known: Known) -> None:
        self._run, self._board, self._known = run, board, known

    def catch_up(self) -> int:
        """How many points it told."""
        new = points(self._run.results.metrics(Refused()), self._run.results.reports())[self._known.told :]
        for point in new:
            attempts = list(self._attempts(point))  # read first: a point is told as a whole or not at all
            self._board.figures(point.step, point.figures)
            for name, text in attempts:
                self._board.text(point.step, name, text)
            self._known.one_more()
        return len(new)

    def _attempts(self, point: Point) -> Iterator[tuple[str, str]]:
        """The first attempt of an iteration that solved its task, and the first that did not."""
        columns = ["attempt", "solved", "stop", "instruction", "conversation"]
        own = self._run.rollouts.rows(point.phase, point.iteration, columns, Refused()) if point.phase else []
        for name, solved in (("attempts/solved", True), ("attempts/unsolved", False)):
            found = next((row for row in own if row["solved"] is solved), None)
            if found is not None:
                yield name, _readable(found)


def _readable(row: Mapping[str, Any]) -> str:
    turns = row["conversation"]
    said = [f"$ {turn['text']}\n{turn['observation']}" for turn in turns[:TURNS]]
    left = [f"({len(turns) - TURNS} turns more)"] if len(turns) > TURNS else []
    return "\n\n".join([f"{row['attempt']}: {row['stop']}\n{row['instruction']}", *said, *left])


@contextmanager
def following(folder: Path, name: str, options: Mapping[str, Any], *, again: bool = False, waits: bool = False) -> Iterator[Follower]:
    """A board of a run, from where it was; or `again` from the beginning, under another id.

    Where another process fills it this one `waits` until that is done, or `StoreError` is raised.
    """
    run = Run.open(folder)
    home = folder / "trackers"
    home.mkdir(exist_ok=True)
    place = home / f"{name}.json"
    with (home / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            raise StoreError(f"{name} is told of {folder} by another process already.") from None
        known = Known(place, secrets.token_hex(4), 0) if again or not place.exists() else Known(place, **files.loads(place))
        board = opened(name, Subject(folder, folder.resolve().name, known.id, _recipe(folder)), options)
        try:
            yield Follower(run, board, known)
        finally:
            board.close()


def _recipe(folder: Path) -> dict[str, Any]:
    path = folder / "recipe.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def main(folder: str, name: str, options: str) -> None:
    """Looks whenever it is told to, until nobody is left who could."""
    os.nice(10)  # the run comes first
    with following(Path(folder), name, json.loads(options), waits=True) as follower:
        follower.catch_up()
        while os.read(sys.stdin.fileno(), 1 << 16):
            follower.catch_up()
        follower.catch_up()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:4])
    except PatchgradError as problem:
        sys.exit(str(problem))
