"""Tasks that are there already, as a source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchgrad.runs.tasks import Listed
from patchgrad.testing import check_task_source
from patchgrad.testing.curriculum import TASKS

TAGGED = [replace(task, tags={"split": "held_out"} if number < 3 else {}) for number, task in enumerate(TASKS)]


def test_listed_tasks_are_a_source() -> None:
    check_task_source(Listed(TAGGED))


def test_tasks_without_a_held_out_one_are_none() -> None:
    with pytest.raises(AssertionError, match="the split held_out has no task"):
        check_task_source(Listed(TASKS))
