"""Rows of SWE-smith, whose `patch` is the bug: it is laid over the image's repository, and the repair is its reverse.

Columns, from a row and https://github.com/SWE-bench/SWE-smith: instance_id, repo (`swesmith/OWNER__NAME.COMMIT`), patch, image_name,
FAIL_TO_PASS and PASS_TO_PASS (lists), problem_statement, base_commit, created_at. Tests are those of the repository: none is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.patches import reverse
from patchgrad.tasks.formats import swebench
from patchgrad.tasks.formats.rows import Format, Row
from patchgrad.tasks.sets import Member
from patchgrad.values import Checks, Task

_NEEDED = {"instance_id", "repo", "patch", "FAIL_TO_PASS", "image_name"}


def _recognises(columns: Mapping[str, Any]) -> bool:
    return columns.keys() >= _NEEDED and "test_patch" not in columns


def _read(row: Row) -> Member:
    bug = row.patch("patch")
    try:
        repair = reverse(bug)
    except TaskError as error:
        raise row.broken("patch", f"is no bug that can be undone: {error}") from error
    repository = replace(swebench.place(row, ("image_name",)), patch=bug)
    checks = Checks(row.tests("FAIL_TO_PASS"), row.tests("PASS_TO_PASS"))
    tags = {"package": row.text("repo")}
    statement = row.text("problem_statement")
    return Member(Task(row.required("instance_id"), statement, repository, checks, tags=tags), {"report": statement}, repair)


def _write(member: Member) -> dict[str, Any]:
    task = member.task
    return {
        "instance_id": task.id,
        "repo": task.tags.get("package", ""),
        "patch": task.repository.patch or _bug(member.repair),
        "FAIL_TO_PASS": list(task.checks.fail_to_pass),
        "PASS_TO_PASS": list(task.checks.pass_to_pass),
        "created_at": task.tags.get("created_at", ""),
        "image_name": swebench.named(task.repository) if task.repository.kind == "image" else "",
        "base_commit": task.repository.digest if task.repository.kind == "git" else "",
        "problem_statement": task.instruction,
    }


def _bug(repair: str) -> str:
    """The bug whose repair this is; none where that cannot be told from the text."""
    try:
        return reverse(repair)
    except TaskError:
        return ""


SWESMITH = Format("swesmith", "SWE-smith (its patch is the bug)", _recognises, _read, _write)
