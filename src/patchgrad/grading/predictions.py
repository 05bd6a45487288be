"""SWE-bench's files of predictions: what a model made of each problem.

A `.jsonl` file with an object a line, or a `.json` file with a list of them or with objects by instance id; `.gz` likewise:
`{"instance_id": "a__b-1", "model_name_or_path": "mine", "model_patch": "diff --git ..."}`. The word `gold` stands for the solutions.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import Refuse, TaskError, one_of_many, stop
from patchgrad.grading.rows import read_objects

GOLD = "gold"
LONGEST = 200
"""Bytes of a name; a file system takes 255, and a report's file has the run's name too."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One model's answer to one problem; `patch` is `None` where it gave none."""

    id: str
    model: str
    patch: str | None


def read_predictions(path: Path, refuse: Refuse = stop) -> dict[str, Prediction]:
    """The predictions of a file by instance id; `TaskError` for a file that cannot be read or holds none.

    A broken line, a missing field, and a second answer to one problem go to `refuse`. Of two answers neither is taken: nobody knows which
    one is meant.
    """
    found: dict[str, Prediction] = {}
    twice: set[str] = set()
    for place, item in read_objects(path, "predictions", refuse):
        with one_of_many(refuse):
            prediction = _prediction(place, item)
            if prediction.id in found:
                twice.add(prediction.id)
                raise TaskError(f"{place} answers {prediction.id} a second time: leave one prediction for each instance.")
            found[prediction.id] = prediction
    return {name: prediction for name, prediction in found.items() if name not in twice}


def _prediction(place: str, item: Mapping[str, Any]) -> Prediction:
    name, model, patch = (item.get(key) for key in ("instance_id", "model_name_or_path", "model_patch"))
    if not isinstance(name, str) or not _names_a_file(name) or not isinstance(model, str) or not _names_a_file(_joined(model)):
        raise TaskError(f"{place} needs an instance_id and a model_name_or_path, words that can name a file.")
    if "model_patch" not in item or not isinstance(patch, str | None):
        raise TaskError(f"{place} needs a model_patch: a patch, or null where the model made none.")
    return Prediction(name, model, patch)


def gold_predictions(repairs: Mapping[str, str], refuse: Refuse = stop) -> dict[str, Prediction]:
    """The known solutions as predictions of a model called `gold`; a task without one goes to `refuse`."""
    found: dict[str, Prediction] = {}
    for name, repair in repairs.items():
        with one_of_many(refuse):
            if not repair.strip():
                raise TaskError(f"Task {name} comes without its solution: gold predictions need tasks that have one.")
            found[name] = Prediction(name, GOLD, repair)
    return found


def known(predictions: Mapping[str, Prediction], tasks: Collection[str], refuse: Refuse = stop) -> dict[str, Prediction]:
    """The predictions about the tasks; one sentence about all others goes to `refuse`."""
    strange = [name for name in predictions if name not in tasks]
    if strange:
        name, more = strange[0], f" (and {len(strange) - 1} more)" if strange[1:] else ""
        near = difflib.get_close_matches(name, tasks, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else "name the tasks that it was made for."
        refuse(TaskError(f"There is a prediction for {name}{more}, which is none of the {len(tasks)} tasks: {hint}"))
    return {name: prediction for name, prediction in predictions.items() if name in tasks}


def file_name(name: str) -> str:
    """The name of a model or an instance as SWE-bench names files after it: `owner/model` -> `owner__model`.

    One that names no file, such as `..` or one that is too long, has a part of its digest in its place or at its end.
    """
    word = _joined(name)
    if _names_a_file(word):
        return word
    start = word.replace("\0", "_").encode()[: LONGEST // 2].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:16]}"


def _joined(name: str) -> str:
    return name.replace("/", "__")


def _names_a_file(word: str) -> bool:
    return word not in ("", ".", "..") and "/" not in word and "\0" not in word and len(word.encode()) <= LONGEST
