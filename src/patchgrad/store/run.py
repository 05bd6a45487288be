"""One run's folder: create it, go on with it, or read it."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.about import About, evaluates, new_about, occupied, recognised
from patchgrad.store.checkpoints import Checkpoints
from patchgrad.store.commits import Commits, kept
from patchgrad.store.lock import WriterLock
from patchgrad.store.results import Results
from patchgrad.store.rollouts import Rollouts
from patchgrad.store.run_journal import RunJournal
from patchgrad.store.sums import Sums
from patchgrad.store.tasks import Tasks
from patchgrad.store.trained import Trained


class Run:
    """A run folder. `create` begins one, `resume` goes on with one, `open` only reads; the first two hold the writer's lock.

        with Run.create("runs/laptop", dumps(recipe)) as run:
            run.rollouts.write("rft", 0, rollouts)
            run.results.write_metrics({"phase": "rft", "iteration": 0, "nll": 0.4})
            run.checkpoints.save("rft-0", trainer.save)
            run.save_state({"phase": "rft", "iteration": 0, "checkpoint": "rft-0"})

    What it holds is read and written through its parts: `about`, `tasks`, `journal`, `rollouts`, `trained`, `results`, `checkpoints`. The
    folder `policy` is the last policy as a whole model, where checkpoints are adapters alone.

    What is written survives the death of the process. A machine that loses its power loses at most the turns of the last `WINDOW` seconds
    before the last one was written: they reach the disk together.

    What counts as done is what `save_state` said last. `resume` goes back to that, but for turns, endings and states, which are never
    done twice: figures and checkpoints that came after it are dropped, and tables of the same phase and iteration are replaced.
    """

    def __init__(self, folder: Path, lock: WriterLock) -> None:
        self.folder = folder
        self._lock = lock
        self.about = About(folder, lock)
        self.journal = RunJournal(folder, lambda: lock.held)
        self.tasks = Tasks(folder, lock)
        self.rollouts = Rollouts(folder, lock, self.tasks, self.journal)
        self.results = Results(folder, lock, self.about)
        self.checkpoints = Checkpoints(folder, lock, lambda: self.state().get("checkpoint"))
        self.trained = Trained(folder, lock)
        self._commits = Commits(folder, lock, self.journal, [self.rollouts, self.trained], self.checkpoints)

    @classmethod
    def create(cls, folder: str | Path, recipe: str, option: str = "--run") -> Self:
        """A new run with this recipe text; a folder that holds anything already is refused and left as it is.

        `option` is what named the folder, for the sentence that says so.
        """
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise occupied(path, option)
        if path.absolute() == Path.cwd():
            raise StoreError(f"{path} is where this program runs, and cannot be replaced; name a folder inside of it with {option}.")
        about = new_about()

        def fill(partial: Path) -> None:
            for name in ("journal", "rollouts", "checkpoints"):
                (partial / name).mkdir()
            (partial / "recipe.toml").write_text(recipe)
            given = Sums(partial).of([], [partial / "recipe.toml"])
            (partial / "state.json").write_text(json.dumps({"committed": given}) + "\n")
            (partial / "run.json").write_text(json.dumps(about, indent=2) + "\n")

        if not files.new_folder(path, fill):
            raise occupied(path, option)
        return cls(path, WriterLock.acquire(path))

    @classmethod
    def resume(cls, folder: str | Path) -> Self:
        """Go on with a run: takes the lock, then cuts what a killed writer left half done, and what it had not said to be done.

        A folder that lacks, or has damaged, what was committed is refused and left as it is.
        """
        path = recognised(Path(folder))
        run = cls(path, WriterLock.acquire(path))
        try:
            ends = run._commits.whole()
        except StoreError:
            run.close()
            raise
        with files.writing(path):
            for place in (path, path / "checkpoints", path / "rollouts", path / "trained"):
                files.recover(place)
        for file, end in ends.items():
            files.cut(file, end)
        for checkpoint in run.checkpoints.all():
            if checkpoint.name not in kept(run.state()):
                run.checkpoints.discard(checkpoint.name)
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Read a run, finished or not; nothing in it is changed."""
        path = recognised(Path(folder))
        return cls(path, WriterLock(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back; reading stays possible."""
        self._lock.release()

    def abandon(self) -> None:
        """Remove a run in which nothing was done yet, so that its name is free again after a mistake; any other one stays."""
        self._lock.require()
        if not self.state() and not self.journal.records.files():
            shutil.rmtree(self.folder, ignore_errors=True)

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
    def evaluates(self) -> bool:
        """Does it hold an evaluation that was kept, in which nothing is trained?"""
        return evaluates(self.folder)

    def state(self) -> dict[str, Any]:
        """What `save_state` said last; empty before the first time."""
        return self._commits.state()

    def save_state(self, state: Mapping[str, Any]) -> None:
        """The commit point: everything written so far reaches the disk, then the state is replaced as a whole.

        With it is kept what all of it is, which `resume` asks for. Of checkpoints that is the one that the state names, and those `kept`.
        """
        self._commits.save(state)
