"""What `tasks grade` and `evaluate --predictions` do alike: predictions against tasks or rows, in sandboxes or by recorded logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchgrad.contracts import Sandboxes
from patchgrad.errors import ConfigError, Fault, Refuse, Refused, SandboxLost, TaskError, one_of_many, stop
from patchgrad.grading import Grader
from patchgrad.grading.output import PATCH_FAILED
from patchgrad.grading.predictions import GOLD, Prediction, gold_predictions, known, read_predictions
from patchgrad.grading.recorded import Recordings, agreement, judge
from patchgrad.grading.reports import Graded, instance_report, run_report, write_instance, write_run
from patchgrad.grading.rows import Row, read_rows
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.tasks.sets import TASKS, members
from patchgrad.values import Task

Tell = Callable[[Graded], None]
Agreement = tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Tried:
    """A file of predictions as it was graded. `agreed` compares with the reports that lay beside recorded logs.

    `refused` has a sentence for each prediction that could not be graded; such a one is an error in the report.
    """

    rows: Mapping[str, Row]
    predictions: Mapping[str, Prediction]
    graded: Mapping[str, Graded]
    agreed: Mapping[str, Agreement]
    refused: Sequence[str] = ()

    @property
    def report(self) -> dict[str, object]:
        """SWE-bench's report of the run."""
        return run_report(self.rows, self.predictions, self.graded)

    def write(self, folder: Path, run: str) -> Path:
        """The file of the run's report; an instance has a folder where it was judged."""
        for name, found in self.graded.items():
            if found.judged:
                write_instance(folder, run, self.predictions[name], instance_report(self.predictions[name], found))
        return write_run(folder, run, self.predictions, self.report)


@dataclass(frozen=True, slots=True)
class Held:
    """What predictions are held against: rows, and of a set the tasks that can be run."""

    place: Path
    rows: Mapping[str, Row]
    tasks: Mapping[str, Task]


def held_against(place: Path, refuse: Refuse = stop) -> Held:
    """A set's folder, or a file of rows; a row that is no task goes to `refuse`."""
    if place.is_dir() or place.name == TASKS:
        found = members(place if place.is_dir() else place.parent, refuse)
        rows = {m.task.id: Row(m.task.id, m.task.checks, m.repair) for m in found}
        return Held(place, rows, {m.task.id: m.task for m in found})
    return Held(place, read_rows(place, refuse), {})


def predicted(source: str, held: Held, refuse: Refuse = stop) -> dict[str, Prediction]:
    """The predictions of a file, or the known solutions for the word gold; one that cannot be read, or is of no task, goes to `refuse`."""
    solutions = {row.id: row.gold for row in held.rows.values()}
    found = gold_predictions(solutions, refuse) if source == GOLD else read_predictions(Path(source), refuse)
    return known(found, held.rows, refuse)


def asked(predictions: Mapping[str, Prediction]) -> list[Prediction]:
    """Those that hold a patch: an empty one is not run."""
    return [prediction for prediction in predictions.values() if prediction.patch not in ("", None)]


def grade(held: Held, predictions: Mapping[str, Prediction], recorded: str | None, concurrency: int, tell: Tell) -> Tried:
    """Verdicts, from recorded logs where they are named, else in sandboxes. Where not one prediction can be graded, the first error."""
    if concurrency < 1:
        raise ConfigError(f"--concurrency {concurrency} grades nothing: give it at least one sandbox.")
    refused = Refused()
    if recorded is not None:
        graded, agreed = _recorded(held.rows, asked(predictions), Recordings(Path(recorded), refused), tell, refused)
    elif held.tasks:
        graded, agreed = asyncio.run(_live(held, asked(predictions), concurrency, tell, refused)), {}
    else:
        raise TaskError(f"{held.place} holds rows, whose repositories are not at hand: name their recorded runs with --recorded.")
    refused.unless(graded)
    return Tried(held.rows, predictions, graded, agreed, refused.sentences)


def plain_word(run: str) -> str:
    """A run's name, which files are named after."""
    if Path(run).name != run:
        raise ConfigError(f"--run-id {run!r} cannot name a file: give it one plain word.")
    return run


def _recorded(
    rows: Mapping[str, Row], asked: Sequence[Prediction], recordings: Recordings, tell: Tell, refuse: Refuse
) -> tuple[dict[str, Graded], dict[str, Agreement]]:
    """The grades by instance, and how they compare with the reports beside the logs."""
    graded, agreed = {}, {}
    for prediction in asked:
        with one_of_many(refuse), _about(prediction):
            recording = recordings.find(prediction.id, prediction.model)
            graded[prediction.id] = found = judge(rows[prediction.id], prediction, recording)
            if found.verdict is not None and recording is not None and (report := recording.report) is not None:
                agreed[prediction.id] = agreement(found.verdict, report)
            tell(found)
    return graded, agreed


@contextmanager
def _about(prediction: Prediction) -> Iterator[None]:
    """What goes wrong with this one is an error of its own, which names it."""
    try:
        yield
    except (TaskError, SandboxLost, Fault, OSError, ValueError) as error:
        said = str(error) or type(error).__name__
        raise TaskError(f"The prediction for {prediction.id} cannot be graded: {said.rstrip('.')}.") from error


async def _live(held: Held, asked: Sequence[Prediction], concurrency: int, tell: Tell, refuse: Refuse) -> dict[str, Graded]:
    from patchgrad.sandboxes.bwrap import BwrapSandboxes

    boxes: Sandboxes = BwrapSandboxes(concurrency)
    graded, shared = {}, (Grader(boxes, {row.id: row.gold for row in held.rows.values()}), held.tasks)
    try:
        async for name, found in LocalExecutor(concurrency).map(f"{__name__}:graded_one", shared, asked):
            if isinstance(found, Graded):
                graded[name] = found
                tell(found)
            else:
                refuse(found)
    finally:
        await boxes.close()
    return graded


async def graded_one(shared: tuple[Grader, Mapping[str, Task]], prediction: Prediction) -> tuple[str, Graded | TaskError]:
    """One prediction's grade, by its instance, or why it has none."""
    grader, tasks = shared
    try:
        with _about(prediction):
            verdict = await grader.grade(tasks[prediction.id], prediction.patch or "")
    except TaskError as error:
        return prediction.id, error
    notes = [*verdict.tamper, *([verdict.fault] if verdict.fault else [])]
    if prediction.patch and not verdict.tamper and verdict.fault is None and "applied" not in verdict.stages:
        notes.append(PATCH_FAILED)
    return prediction.id, Graded(verdict, "; ".join(notes), ("sandbox_fault", True) if verdict.fault else None)
