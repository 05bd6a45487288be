"""Attempts of a run are written in a format, and counted; one that cannot be written is left out by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgrad.errors import ConfigError, Refuse
from patchgrad.grading.handed_in import lines, predicted, write_runs
from patchgrad.runs.exports import atif, inspect_log, messages
from patchgrad.runs.exports.conversations import Conversation, conversations
from patchgrad.runs.exports.hidden import Hidden
from patchgrad.store import Run, files
from patchgrad.values import Group, Rollout

NOTHING = Hidden()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which attempts: those of a `phase` (all: `*`), and of these all or the `solved`; with what is `hidden` in them."""

    phase: str = "*"
    solved: bool = False
    hidden: Hidden = NOTHING

    def of(self, run: Run, refuse: Refuse) -> Iterator[Conversation]:
        """Attempts with what was said in them."""
        return (one for one in conversations(run, self.phase, refuse) if one.rollout.solved or not self.solved)


def _atif(run: Run, wanted: Wanted, out: Path, refuse: Refuse) -> int:
    return sum(atif.write(told, out, wanted.hidden) for told in wanted.of(run, refuse))


def _messages(run: Run, wanted: Wanted, out: Path, refuse: Refuse) -> int:
    rows = [row for told in wanted.of(run, refuse) for row in messages.rows(told, wanted.hidden)]
    if rows:
        messages.write(rows, out)
    return len({row["trajectory_id"] for row in rows})


def _inspect(run: Run, wanted: Wanted, out: Path, refuse: Refuse) -> int:
    count, created = 0, str(run.about.read().get("created", ""))
    for (phase, iteration), told in itertools.groupby(wanted.of(run, refuse), lambda one: (one.phase, one.iteration)):
        attempts = list(told)
        out.mkdir(parents=True, exist_ok=True)
        inspect_log.write(attempts, out / f"{phase}-{iteration:05d}.eval", run.folder.resolve().name, created, wanted.hidden)
        count += len(attempts)
    return count


def _swebench(run: Run, wanted: Wanted, out: Path, refuse: Refuse) -> int:
    """SWE-bench has one prediction for a task, so of several attempts each is a run of its own."""
    groups = _handed_in(run, wanted, refuse)
    write_runs(out, run.folder.resolve().name, groups)
    return sum(len(group.rollouts) for group in groups)


def _predictions(run: Run, wanted: Wanted, out: Path, refuse: Refuse) -> int:
    """A file has one prediction for a task: of several attempts it is the first, as in SWE-bench's run 1."""
    first = predicted(run.folder.resolve().name, [group.rollouts[0] for group in _handed_in(run, wanted, refuse)])
    if first:
        out.parent.mkdir(parents=True, exist_ok=True)
        files.put(out, lines(first).encode())
    return len(first)


def _handed_in(run: Run, wanted: Wanted, refuse: Refuse) -> list[Group]:
    """The attempts of one phase by task. Raises `ConfigError` where no phase is named, or where a part is left out or hidden."""
    if wanted.hidden.patterns or wanted.solved:
        raise ConfigError("a prediction is handed in as it was, and all of them: leave --hide and --solved away.")
    groups: dict[str, list[Rollout]] = {}
    tables = {row["iteration"] for row in run.rollouts.rows(wanted.phase, columns=["phase", "iteration"], refuse=refuse)}
    if wanted.phase == "*" or not tables:
        raise ConfigError(f"--phase names the attempts that are handed in: {', '.join(_phases(run)) or 'there are none yet'}.")
    for iteration in sorted(tables):
        for rollout in run.rollouts.read(wanted.phase, iteration, refuse):
            groups.setdefault(rollout.task.id, []).append(rollout)
    return [Group(tuple(each)) for each in groups.values()]


def _phases(run: Run) -> list[str]:
    return list(dict.fromkeys(row["phase"] for row in run.rollouts.rows(columns=["phase"])))


FORMATS: dict[str, tuple[str, Callable[[Run, Wanted, Path, Refuse], int]]] = {
    "atif": ("a folder of trajectories as Harbor has them, with token ids and log-probabilities", _atif),
    "hf-messages": ("a parquet file of messages, a row an attempt", _messages),
    "inspect": ("a folder of logs for `inspect view`", _inspect),
    "predictions": ("a file of predictions in SWE-bench's format: the first attempt at each task of one phase", _predictions),
    "swebench": ("a folder of predictions and reports as SWE-bench has them, of one phase", _swebench),
}


def exported(run: Run, format: str, wanted: Wanted, out: Path, refuse: Refuse) -> int:
    """How many attempts were written to `out`. Raises `ConfigError` where there are none, or `out` is there already."""
    if out.exists():
        raise ConfigError(f"{out} is there already: name another place for the export.")
    count = FORMATS[format][1](run, wanted, out, refuse)
    if not count:
        raise ConfigError(f"{run.folder} has no such attempts.")
    return count
