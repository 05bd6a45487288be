"""One run's folder: create it, go on with it, or read it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from patchgrad import __version__
from patchgrad.errors import StoreError
from patchgrad.store import files, format3, table
from patchgrad.store.codec import finite, plain, value
from patchgrad.store.run_journal import RunJournal
from patchgrad.store.sums import Sum, Sums
from patchgrad.values import Report, Rollout, Task

FORMAT = 3
_LISTS = ("tasks.jsonl", "metrics.jsonl")


class Run:
    """A run folder. `create` begins one, `resume` goes on with one, `open` only reads; the first two hold the writer's lock.

        with Run.create("runs/laptop", dumps(recipe)) as run:
            run.write_rollouts("rft", 0, rollouts)
            run.save_state({"phase": "rft", "iteration": 0})

    What is written survives the death of the process. A machine that loses its power loses at most the turns of the last `WINDOW` seconds
    before the last one was written: they reach the disk together.

    What counts as done is what `save_state` said last. `resume` goes back to that, but for turns, endings and states, which are never
    done twice: figures and checkpoints that came after it are dropped, and tables of the same phase and iteration are replaced.
    """

    def __init__(self, folder: Path, lock: int | None) -> None:
        self.folder = folder
        self._lock = lock
        self.journal = RunJournal(folder, lambda: self._lock is not None)
        self._tasks: dict[str, Task] = {}
        self._sums = Sums(folder)

    @classmethod
    def create(cls, folder: str | Path, recipe: str) -> Self:
        """A new run with this recipe text; a folder that holds anything already is refused and left as it is."""
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise _occupied(path)
        if path.absolute() == Path.cwd():
            raise StoreError(f"{path} is where this program runs, and cannot be replaced; name a folder inside of it with --run.")
        about = {"program": "patchgrad", "format": FORMAT, "version": __version__, "created": datetime.now(UTC).isoformat()}

        def fill(partial: Path) -> None:
            for name in ("journal", "rollouts", "checkpoints"):
                (partial / name).mkdir()
            (partial / "recipe.toml").write_text(recipe)
            given = Sums(partial).of([], [partial / "recipe.toml"])
            (partial / "state.json").write_text(json.dumps({"committed": given}) + "\n")
            (partial / "run.json").write_text(json.dumps(about, indent=2) + "\n")

        if not files.new_folder(path, fill):
            raise _occupied(path)
        return cls(path, _acquire(path))

    @classmethod
    def resume(cls, folder: str | Path) -> Self:
        """Go on with a run: takes the lock, then cuts what a killed writer left half done, and what it had not said to be done.

        A folder that lacks, or has damaged, what was committed is refused and left as it is.
        """
        path = _recognised(Path(folder))
        run = cls(path, _acquire(path))
        try:
            ends = run._whole()
        except StoreError:
            run.close()
            raise
        with files.writing(path):
            for place in (path, path / "checkpoints", path / "rollouts"):
                files.recover(place)
        for file, end in ends.items():
            files.cut(file, end)
        for checkpoint in run.checkpoints():
            if checkpoint.name not in _kept(run.state()):
                run.discard(checkpoint.name)
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read a run, finished or not; nothing in it is changed."""
        return cls(_recognised(Path(folder)), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back; reading stays possible."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def abandon(self) -> None:
        """Remove a run in which nothing was done yet, so that its name is free again after a mistake; any other one stays."""
        self._writable()
        if not self.state() and not self.journal.records.files():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _writable(self) -> None:
        if self._lock is None:
            raise StoreError(f"{self.folder} was opened for reading; go on with it through Run.resume.")

    # --- recipe and state ----------------------------------------------------------------------

    @property
    def recipe(self) -> str:
        """The recipe's text, exactly as it was given; `StoreError` where that is no TOML any more."""
        path = self.folder / "recipe.toml"
        try:
            tomllib.loads(text := path.read_text())
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read, so this run is damaged: {error}; restore it from a copy.") from error
        return text

    @property
    def about(self) -> dict[str, Any]:
        """Which version of patchgrad made the folder, when, and in which sandboxes."""
        return dict(_loads(self.folder / "run.json"))

    def write_sandbox(self, backend: str, lacks: Sequence[str]) -> None:
        """In what the attempts ran, and what that does not enforce on this host: it stands in every report of the run."""
        self._writable()
        about = {**self.about, "sandbox": {"backend": backend, "lacks": list(lacks)}}
        files.put(self.folder / "run.json", (json.dumps(about, indent=2) + "\n").encode())

    def write_code(self, code: Mapping[str, Mapping[str, str]]) -> None:
        """What code of the user's the run is made with: a name, a digest and a file for each part, which a resume compares."""
        self._writable()
        files.put(self.folder / "run.json", (json.dumps({**self.about, "code": code}, indent=2) + "\n").encode())

    def state(self) -> dict[str, Any]:
        """What `save_state` said last; empty before the first time."""
        return {name: value for name, value in self._committed().items() if name != "committed"}

    def _committed(self) -> dict[str, Any]:
        path = self.folder / "state.json"
        if not path.exists():
            raise StoreError(f"{path} is gone; restore it from a copy.")
        return dict(_loads(path))

    def save_state(self, state: Mapping[str, Any]) -> None:
        """The commit point: everything written so far reaches the disk, then the state is replaced as a whole.

        With it is kept what all of it is, which `resume` asks for. Of checkpoints that is the one that the state names, and those `kept`.
        """
        self._writable()
        self.journal.sync()
        with files.writing(self.folder):
            for path in self._lists():
                files.sync(path)
        committed = self._sums.of(self._logs(), [self.folder / "recipe.toml", *self._tables(), *self._files_of(_kept(state))])
        files.put(self.folder / "state.json", (json.dumps({**state, "committed": committed}, indent=2) + "\n").encode())

    def _lists(self) -> list[Path]:
        return [path for name in _LISTS if (path := self.folder / name).exists()]

    def _logs(self) -> list[Path]:
        """All that only grows."""
        return [*self.journal.records.files(), *self.journal.states.packs(), *self._lists()]

    def _tables(self, names: str = "*") -> list[Path]:
        return sorted((self.folder / "rollouts").glob(f"{names}.parquet"), key=_natural)

    def _files_of(self, checkpoints: Iterable[str]) -> list[Path]:
        found = (path for name in sorted(checkpoints) for path in (self.folder / "checkpoints" / name).rglob("*"))
        return sorted(path for path in found if path.is_file())

    def _whole(self) -> dict[Path, int]:
        """How many bytes of each log are whole; `StoreError` where what was committed is not."""
        committed: dict[str, Sum] | None = self._committed().get("committed")
        if committed is None:
            raise StoreError(f"{self.folder / 'state.json'} does not say what is done, so this run is damaged; restore it from a copy.")
        self._sums.check(committed, self._logs())
        done = {path: int(committed.get(str(path.relative_to(self.folder)), [0])[0]) for path in self._logs()}
        return {**done, **self.journal.records.whole(done), **self.journal.states.whole(done)}

    # --- tasks, turns, rollouts ----------------------------------------------------------------

    def tasks(self) -> dict[str, Task]:
        """Every task that was stored, by id."""
        for record in files.records(self.folder / "tasks.jsonl"):
            if record.get("id") not in self._tasks:
                task = value(Task, record)
                self._tasks[task.id] = task
        return dict(self._tasks)

    def write_tasks(self, tasks: Iterable[Task]) -> None:
        """Store the tasks that are not there yet; an id that stands for another content is refused."""
        self._writable()
        known = self._tasks or self.tasks()
        for task in tasks:
            if task.id not in known:
                files.append(self.folder / "tasks.jsonl", json.dumps(plain(task)).encode() + b"\n")
                self._tasks[task.id] = known[task.id] = task
            elif known[task.id].digest() != task.digest():
                raise StoreError(f"Task {task.id} stands in {self.folder} with another content; give one of the two another id.")

    def write_rollouts(self, phase: str, iteration: int, rollouts: Sequence[Rollout]) -> None:
        """One table for this phase and iteration, with the tasks and turns that it names; a second call replaces the table."""
        self._writable()
        self.write_tasks(rollout.task for rollout in rollouts)
        self.journal.add(rollouts)
        table.write(self.folder / "rollouts" / f"{phase}-{iteration:05d}.parquet", phase, iteration, rollouts)

    def rollouts(self, phase: str, iteration: int | None = None) -> list[Rollout]:
        """The rollouts of a phase exactly as they were, every turn verified; tasks as they were stored first."""
        tasks, rows = self.tasks(), self.rows(phase, iteration)
        if lost := next((row["task"] for row in rows if row["task"] not in tasks), None):
            raise StoreError(f"{self.folder / 'tasks.jsonl'} has no task {lost}, of which there are attempts; restore it from a copy.")
        return [table.rollout(row, tasks[row["task"]], self.journal.records.turn) for row in rows]

    def rows(self, phase: str = "*", iteration: int | None = None, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The tables' rows as dicts, by phase and iteration, for pages and figures; `rows()` gives all of them."""
        number = "[0-9]" * 5 if iteration is None else f"{iteration:05d}"
        return table.read(self._tables(f"{phase}-{number}"), columns)

    # --- figures -------------------------------------------------------------------------------

    def write_metrics(self, record: Mapping[str, Any]) -> None:
        """One line; it should name `phase` and `iteration`. A number that is not finite is written as null."""
        self._writable()
        files.append(self.folder / "metrics.jsonl", json.dumps(finite(record)).encode() + b"\n")

    def metrics(self) -> list[dict[str, Any]]:
        """One record an iteration: where an iteration was repeated after a resume, the later one."""
        latest: dict[tuple[Any, Any], dict[str, Any]] = {}
        for record in map(format3.metrics, files.records(self.folder / "metrics.jsonl")):
            key = (record.get("phase"), record.get("iteration"))
            latest.pop(key, None)
            latest[key] = record
        return list(latest.values())

    def write_predictions(self, model: str, rollouts: Iterable[Rollout]) -> None:
        """SWE-bench's format: the first attempt at each task."""
        self._writable()
        first: dict[str, Rollout] = {}
        for rollout in rollouts:
            first.setdefault(rollout.task.id, rollout)
        rows = [{"instance_id": name, "model_name_or_path": model, "model_patch": rollout.handed_in} for name, rollout in first.items()]
        files.put(self.folder / "predictions.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())

    def write_reports(self, reports: Sequence[Report]) -> None:
        """The table, one entry a policy, in the order of training."""
        self._writable()
        data = {"format": FORMAT, "sandbox": self.about.get("sandbox"), "reports": [plain(report) for report in reports]}
        files.put(self.folder / "report.json", (json.dumps(finite(data), indent=2) + "\n").encode())

    def reports(self) -> list[Report]:
        """What `write_reports` wrote; empty before."""
        path = self.folder / "report.json"
        return [value(Report, item) for item in _loads(path)["reports"]] if path.exists() else []

    # --- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self, step: int | str, save: Callable[[Path], None]) -> Path:
        """A checkpoint is there as a whole or not at all; `save` fills the folder that it is given."""
        self._writable()
        path = self.folder / "checkpoints" / _step(step)
        files.put_folder(path, save)
        return path

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        found = [path for path in (self.folder / "checkpoints").iterdir() if path.is_dir() and path.name[0] != "."]
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def find(self, name: str | None = None) -> Path:
        """The checkpoint of this name, or the last one; `StoreError` names those that there are."""
        found = name or self.state().get("checkpoint")
        folder = self.folder / "checkpoints" / str(found)
        if found is None or not folder.is_dir():
            there = ", ".join(path.name for path in self.checkpoints()) or "none yet"
            raise StoreError(f"{self.folder} has no checkpoint {found or ''}; there are: {there}.")
        return folder

    def discard(self, step: int | str) -> None:
        """Delete a checkpoint that is no longer needed; one that is not there is no error."""
        self._writable()
        with files.writing(self.folder):
            files.remove_folder(self.folder / "checkpoints" / _step(step))


def _step(step: int | str) -> str:
    return f"{step:06d}" if isinstance(step, int) else step


def _kept(state: Mapping[str, Any]) -> set[str]:
    """The checkpoints that a state names."""
    return {str(name) for name in (state.get("checkpoint"), *state.get("kept", ())) if name is not None}


def _natural(path: Path) -> tuple[str | int, ...]:
    """`stage10` after `stage2`."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name))


def _occupied(path: Path) -> StoreError:
    if (path / "run.json").is_file():
        return StoreError(f"{path} holds a run already; add --resume to go on with it, or name another folder with --run.")
    return StoreError(f"{path} holds something that is no run of patchgrad's; name another folder with --run.")


def _loads(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read, so this run is damaged; start another with --run.") from error


def _recognised(path: Path) -> Path:
    if not (path / "run.json").is_file():
        raise StoreError(f"{path} is no run of patchgrad's: it has no run.json; name a folder that `patchgrad train` made.")
    about = _loads(path / "run.json")
    if not isinstance(about, dict) or about.get("program") != "patchgrad":
        raise StoreError(f"{path} was written by another program; name a folder that `patchgrad train` made.")
    if about.get("format") != FORMAT:
        raise StoreError(
            f"{path} has format {about.get('format')}, written by patchgrad {about.get('version')}, and this one reads format "
            f"{FORMAT}; use that version, or start another run with --run."
        )
    for name in ("recipe.toml", "journal", "rollouts", "checkpoints"):
        if not (path / name).exists():
            raise StoreError(f"{path} is only half there: {name} is missing; restore it, or start another run with --run.")
    return path


def _acquire(path: Path) -> int:
    """The writer's lock, on a file that is never replaced; the kernel gives it back even when the process is killed."""
    with files.writing(path):
        descriptor = os.open(path / "recipe.toml", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(f"Another process is writing to {path}; wait for it, or start another run with --run.") from None
    return descriptor
