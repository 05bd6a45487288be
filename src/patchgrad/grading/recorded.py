"""Recorded runs of SWE-bench's harness -> verdicts, without running anything.

Logs lie as the harness left them, `logs/run_evaluation/RUN/MODEL/INSTANCE/test_output.txt` with `report.json` and `patch.diff` beside
it, or any part of that path, or as `INSTANCE.txt`; in folders, in tar files, or in folders of tar files.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from patchgrad.errors import Refuse, TaskError, one_of_many, stop
from patchgrad.grading.logs import reader
from patchgrad.grading.output import PATCH_FAILED, read_recorded
from patchgrad.grading.predictions import Prediction, file_name
from patchgrad.grading.reports import Graded, failure_reason, tests_status
from patchgrad.grading.rows import Row, read_text
from patchgrad.grading.rules import outcomes
from patchgrad.values import Verdict, digest

_LOG, _PATCH, _REPORT, _RUN = "test_output.txt", "patch.diff", "report.json", "run_instance.log"
_PARTS = (_LOG, _PATCH, _REPORT, _RUN)
_ALONE = re.compile(r"(.+?)(?:[._](?:log|test_output|eval))*\.(?:txt|log)")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


@dataclass(frozen=True, slots=True)
class Recording:
    """The files of one recorded run by name; `place` is where they lie, for people."""

    place: str
    files: Mapping[str, str]

    @property
    def report(self) -> dict[str, Any] | None:
        """What the harness reported then, `None` if it left no report; SWE-smith's reports are not under the instance's id."""
        try:
            told = json.loads(self.files.get(_REPORT, "null"))
        except ValueError:
            return None
        found = told if isinstance(told, dict) and "resolved" not in told else {"": told}
        return next((report for report in found.values() if isinstance(report, dict) and "resolved" in report), None)


def judge(row: Row, prediction: Prediction, recording: Recording | None) -> Graded:
    """The verdict on a recorded run, by the same rules as on a live one; none, but a note, if its tests left no log.

    The verdict is about the patch of the prediction; where another one was recorded, the note says so.
    """
    files = recording.files if recording else {}
    failure = failure_reason("\n".join(files[part] for part in (_LOG, _RUN) if part in files))
    if _LOG not in files:
        applied = PATCH_FAILED not in read_recorded(files.get(_RUN, ""), reader(row.checks.parser)).note
        return Graded(None, "no log of its tests was recorded" if applied else PATCH_FAILED, failure)
    run = read_recorded(files[_LOG], reader(row.checks.parser))
    notes = [run.note] if run.note else []
    if _PATCH in files and files[_PATCH].strip() != (prediction.patch or "").strip():
        notes.append("the recorded run is of another patch than the prediction")
    stages = () if run.note == PATCH_FAILED else run.stages
    verdict = Verdict(row.id, digest(prediction.patch or ""), stages, outcomes(row.checks, run.statuses))
    return Graded(verdict, "; ".join(notes), failure)


def agreement(verdict: Verdict, report: Mapping[str, Any]) -> tuple[bool, bool]:
    """Does a recorded report say the same of resolved or not, and does it give the same tests in the same lists?"""
    resolved = verdict.resolved == report.get("resolved")
    mine = _lists(tests_status(verdict) if "ran" in verdict.stages else {})
    try:
        return resolved, _lists(report.get("tests_status") or {}) == mine
    except (AttributeError, TypeError):  # lists in another form than the harness's
        return resolved, False


def _lists(status: Mapping[str, Mapping[str, Collection[str]]]) -> dict[str, dict[str, list[str]]]:
    return {name: {side: sorted(tests) for side, tests in held.items()} for name, held in status.items() if any(held.values())}


class Recordings:
    """The recorded runs below a folder, or in a tar file: `Recordings(Path("logs")).find("django__django-11820", "my-model")`.

    `TaskError` if there is no such place, or it is a broken tar; a broken tar among others goes to `refuse`.
    """

    def __init__(self, place: Path, refuse: Refuse = stop) -> None:
        self.place = place
        self._files: dict[str, str | Path] = dict(_walk(place, refuse))
        self._found: dict[str, dict[str, dict[str, str]]] = {}
        for path in self._files:
            pure = PurePosixPath(path)
            if pure.name in _PARTS:
                self._found.setdefault(pure.parent.name, {}).setdefault(str(pure.parent), {})[pure.name] = path
            elif alone := _ALONE.fullmatch(pure.name):
                self._found.setdefault(alone[1], {}).setdefault(path, {})[_LOG] = path

    def find(self, name: str, model: str) -> Recording | None:
        """The run of an instance, the one of this model if there are several; `TaskError` where that leaves a choice."""
        runs = {place: files for place, files in self._found.get(name, {}).items() if _LOG in files or _RUN in files}
        own = {place: files for place, files in runs.items() if file_name(model) in PurePosixPath(place).parts}
        chosen = own or runs
        if len(chosen) > 1:
            raise TaskError(
                f"{self.place} has {len(chosen)} runs of {name}, as in {' and '.join(sorted(chosen)[:2])}: name the folder of one."
            )
        for place, files in chosen.items():
            return Recording(place, {part: self._text(path) for part, path in files.items()})
        return None

    def _text(self, path: str) -> str:
        held = self._files[path]
        return held if isinstance(held, str) else read_text(held)


def _walk(place: Path, refuse: Refuse) -> Iterator[tuple[str, str | Path]]:
    """Path in the recording -> its text, or the file that holds it."""
    if place.is_file():
        if not place.name.endswith(_TAR):
            raise TaskError(f"{place} is no folder and no tar file: name where the recorded runs lie.")
        yield from _unpack(place)
        return
    if not place.is_dir():
        raise TaskError(f"{place} does not exist: name the folder, or the tar file, with the recorded runs.")
    for path in sorted(place.rglob("*")):
        if path.name.endswith(_TAR):
            with one_of_many(refuse):
                yield from _unpack(path)
        elif path.is_file():
            yield str(path.relative_to(place.parent).as_posix()).removesuffix(".gz"), path


def _unpack(place: Path) -> Iterator[tuple[str, str]]:
    """The texts of a tar that could be a run's; nothing is written anywhere."""
    try:
        with tarfile.open(place) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None and (PurePosixPath(member.name).name in _PARTS or member.name.endswith((".txt", ".log"))):
                    yield str(PurePosixPath(place.name.partition(".")[0]) / member.name), file.read().decode(errors="replace")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TaskError(f"{place} is no whole tar file ({error}): fetch or pack it again.") from error
