"""Rows of R2E-Gym: a commit in an image of its own, with the outcome of every one of its tests.

Columns, from https://github.com/R2E-Gym/R2E-Gym and its data set's card: repo_name, docker_image (`.../NAME_final:COMMIT`), commit_hash,
problem_statement (between `[ISSUE]` and `[/ISSUE]`), and as JSON text expected_output_json {test: status}, parsed_commit_content
{file_diffs: [{header: {file: {path}}, old_file_content, new_file_content}]}, execution_result_content {test_file_names,
test_file_codes, old_commit_res_stdout}. A test is named `Class.test`, without its file, as R2E-Gym reads pytest's summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.patches import outside
from patchgrad.tasks.formats.rows import Format, Row
from patchgrad.tasks.formats.swebench import named, place
from patchgrad.tasks.sets import Member, unified
from patchgrad.values import Checks, HiddenFile, Task

COMMAND = ("bash", "run_tests.sh")
PARSER = "r2e-gym"
_TESTS = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_COLOUR = re.compile(r"\x1b\[\d+m")


def recognises(columns: Mapping[str, Any]) -> bool:
    """Are these the columns of an R2E-Gym row?"""
    return columns.keys() >= {"docker_image", "expected_output_json"}


def read(row: Row) -> Member:
    """A row of R2E-Gym. What failed before the commit and passes after it is to be mended, what passed before is to be kept."""
    image = row.required("docker_image")
    expected = {_COLOUR.sub("", test): status for test, status in row.table("expected_output_json").items()}
    ran = row.table("execution_result_content")
    before = summary(ran.get("old_commit_res_stdout"))
    passing = [test for test, status in expected.items() if test and status == "PASSED"]
    checks = Checks(
        tuple(test for test in passing if before.get(test) != "PASSED"),
        tuple(test for test in passing if before.get(test) == "PASSED"),
        files=_hidden(row, ran),
        command=COMMAND,
        parser=PARSER,
    )
    package = row.text("repo_name") or row.text("repo")
    name = row.text("instance_id") or f"{package}__{package}-{row.text('commit_hash') or image.rpartition(':')[2]}"
    statement = row.text("problem_statement")
    told = re.sub(r"^\s*\[ISSUE\]\n?|\n?\[/ISSUE\]\s*$", "", statement)
    task = Task(name, told, place(row, ("docker_image",)), checks, tags={"package": package})
    return Member(task, {"report": told}, _repair(row))


def summary(log: object) -> dict[str, str]:
    """Statuses by R2E-Gym's names: `"... short test summary info ...\\nPASSED r2e_tests/test_1.py::A::b"` -> `{"A.b": "PASSED"}`."""
    _, _, lines = (log if isinstance(log, str) else "").partition("short test summary info")
    found = {}
    for line in lines.splitlines():
        status, _, rest = _COLOUR.sub("", line).partition(" ")
        if status in ("PASSED", "FAILED", "ERROR") and "::" in rest:
            found[".".join(rest.split("::")[1:]).split(" - ")[0]] = status
    return found


def _hidden(row: Row, ran: Mapping[str, Any]) -> tuple[HiddenFile, ...]:
    names, codes = ran.get("test_file_names") or [], ran.get("test_file_codes") or []
    if not isinstance(names, list) or not isinstance(codes, list) or not all(isinstance(text, str) for text in (*names, *codes)):
        raise row.broken("execution_result_content", "has test files that are no text")
    for name in names:
        if name != re.sub(r"[^A-Za-z0-9_.-]", "", name) or name.startswith("."):
            raise row.broken("execution_result_content", f"has a test file {name!r}, which is no plain name: it is refused")
    return tuple(HiddenFile(f"r2e_tests/{name}", code) for name, code in zip(names, codes, strict=False))


def _repair(row: Row) -> str:
    """The commit's changes to what is no test, as a patch."""
    patch = ""
    for changed in row.table("parsed_commit_content").get("file_diffs") or []:
        try:
            path, old, new = changed["header"]["file"]["path"], changed.get("old_file_content"), changed.get("new_file_content")
        except (KeyError, TypeError, AttributeError) as error:
            raise row.broken("parsed_commit_content", f"has a change without a path ({error})") from error
        if isinstance(path, str) and not _TESTS.search(path) and old != new:
            patch += unified(path, old or "", new or "")
    if outside(patch) is not None:
        raise row.broken("parsed_commit_content", "changes a file outside of the repository: it is refused")
    return patch


def _write(member: Member) -> dict[str, Any]:
    task = member.task
    passed = dict.fromkeys((*task.checks.fail_to_pass, *task.checks.pass_to_pass), "PASSED")
    lines = "\n".join(f"PASSED r2e_tests/test_1.py::{test.replace('.', '::')}" for test in task.checks.pass_to_pass)
    ran = {
        "test_file_names": [file.path.rpartition("/")[2] for file in task.checks.files],
        "test_file_codes": [file.content for file in task.checks.files],
        "old_commit_res_stdout": f"short test summary info\n{lines}",
    }
    return {
        "repo_name": task.tags.get("package", ""),
        "docker_image": (named(task.repository) if task.repository.kind == "image" else "") or "patchgrad",
        "commit_hash": task.id.rpartition("-")[2],
        "parsed_commit_content": json.dumps({"file_diffs": []}),
        "execution_result_content": json.dumps(ran, ensure_ascii=False),
        "problem_statement": f"[ISSUE]\n{task.instruction}\n[/ISSUE]",
        "expected_output_json": json.dumps(passed, ensure_ascii=False),
    }


def _readable(member: Member) -> dict[str, Any]:
    """What `_write` makes, without hidden files whose names R2E-Gym could not have: they travel beside."""
    row = _write(member)
    try:
        read(Row(row, member.task.id))
    except TaskError:
        return {**row, "execution_result_content": "{}"}
    return row


R2E = Format("r2e-gym", "R2E-Gym", recognises, read, _readable)
