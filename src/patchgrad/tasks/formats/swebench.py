"""Rows of SWE-bench and of the data sets that took its columns over: SWE-bench-extra, SWE-Gym.

Columns, from the rows themselves and from https://github.com/SWE-bench/SWE-bench (docs, `make_test_spec` of version 5): instance_id,
repo, base_commit, patch (the repair), test_patch, problem_statement, FAIL_TO_PASS and PASS_TO_PASS (the JSON text of a list, or a list);
version 5 adds image, eval_script and log_parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from patchgrad.tasks.formats.rows import OWN, Format, Row
from patchgrad.tasks.sets import Member
from patchgrad.values import Checks, Repository, Task

NEEDED = frozenset({"instance_id", "repo", "patch", "test_patch", "problem_statement", "FAIL_TO_PASS"})
IMAGES = ("image", "image_name", "docker_image")
_GYM = {*NEEDED, "PASS_TO_PASS", "base_commit", "hints_text", "created_at", "version"}
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?==[A-Za-z0-9.!+_-]+")


def read(row: Row) -> Member:
    """A row with SWE-bench's columns; the repository is the image where the row names one, else a commit of a clone."""
    package = row.text("repo")
    command, parser = judged(row)
    checks = Checks(row.tests("FAIL_TO_PASS"), row.tests("PASS_TO_PASS"), command=command, parser=parser, patch=row.patch("test_patch"))
    tags = {"package": package}
    if version := row.text("version"):
        tags["version"] = version
    statement = row.text("problem_statement")
    task = Task(row.required("instance_id"), statement, place(row), checks, packages=pins(row), tags=tags)
    return Member(task, {"report": statement}, row.patch("patch"))


def write(member: Member) -> dict[str, Any]:
    """SWE-bench's columns of any member, its lists of tests as JSON text."""
    task = member.task
    row: dict[str, Any] = {
        "repo": task.tags.get("package", ""),
        "instance_id": task.id,
        "base_commit": task.repository.digest if task.repository.kind == "git" else "",
        "patch": member.repair,
        "test_patch": task.checks.patch,
        "problem_statement": task.instruction,
        "hints_text": "",
        "created_at": task.tags.get("created_at", ""),
        "version": task.tags.get("version", ""),
        "FAIL_TO_PASS": json.dumps(task.checks.fail_to_pass),
        "PASS_TO_PASS": json.dumps(task.checks.pass_to_pass),
        "environment_setup_commit": "",
    }
    if task.repository.kind == "image":
        row["image"] = named(task.repository)
    if task.checks.command[:2] == ("bash", "-c"):
        row["eval_script"] = task.checks.command[2]
    if task.checks.parser != "report":
        row["log_parser"] = task.checks.parser
    return row


def place(row: Row, names: Sequence[str] = IMAGES) -> Repository:
    """The image that one of these columns names, by digest where the name carries it, or the commit of the repository.

    `"python:3.12@sha256:ab.."` -> `Repository("image", "python:3.12", "sha256:ab..")`; a bare tag has no digest yet.
    """
    for name in names:
        if image := row.text(name):
            location, _, digest = image.partition("@")
            return Repository("image", location, digest)
    return Repository("git", address(row.text("repo")), row.text("base_commit"))


def address(repository: str) -> str:
    """Where a repository is cloned from: `django/django` -> `https://github.com/django/django.git`."""
    return repository if not repository or "://" in repository else f"https://github.com/{repository}.git"


def named(repository: Repository) -> str:
    """An image's name with its digest, as `docker pull` takes it."""
    return f"{repository.location}@{repository.digest}" if repository.digest else repository.location


def judged(row: Row) -> tuple[tuple[str, ...], str]:
    """The command of the tests and the reader of its log: what the row, or its `install_config`, says, or pytest and our own report.

    `test_cmd: ["make check"], log_parser: "parse_log_jq"` -> `(("bash", "-c", "make check"), "parse_log_jq")`.
    """
    parser = _said(row, ("log_parser",), "log_parser")
    if not isinstance(parser[1], str | None):
        raise row.broken(parser[0], "has a log parser that is no text")
    script = _said(row, ("eval_script", "test_cmd", "test_cmds"), "test_cmd")
    lines = [script[1]] if isinstance(script[1], str) else script[1] or []
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise row.broken(script[0], "has a test command that is no text")
    return (("bash", "-c", "\n".join(lines)) if lines else ("pytest",)), parser[1] or "report"


def _said(row: Row, names: Sequence[str], key: str) -> tuple[str, Any]:
    """The first of these columns that says anything, else what `install_config` has under the key, and where it stood."""
    given = ((name, row.columns[name]) for name in names if row.columns.get(name))
    return next(given, ("install_config", row.table("install_config").get(key) or None))


def pins(row: Row) -> tuple[str, ...]:
    """The pinned distributions that a row lists: `requirements` (what `pip freeze` said) and `install_config`'s packages.

    `"attrs==26.1.0\\n-e git+https://..."` -> `("attrs==26.1.0",)`: what is no plain pin is left out.
    """
    config = row.table("install_config")
    found: list[str] = []
    for text in (row.columns.get("requirements"), config.get("packages"), config.get("pip_packages")):
        lines = text.split("\n") if isinstance(text, str) else text if isinstance(text, list) else []
        words = [word for line in lines if isinstance(line, str) for word in line.partition("#")[0].partition(";")[0].split()]
        found += [word for word in words if _PIN.fullmatch(word)]
    return tuple(dict.fromkeys(found))


def _plain(columns: Mapping[str, Any]) -> bool:
    return columns.keys() >= NEEDED


def _extra(columns: Mapping[str, Any]) -> bool:
    meta = columns.get("meta")
    return _plain(columns) and isinstance(meta, dict | str) and "is_lite" in meta


def _gym(columns: Mapping[str, Any]) -> bool:
    has = {name for name in columns if not name.startswith(OWN)}  # more than these has SWE-bench-Live, which is for evaluation
    return _plain(columns) and isinstance(columns["FAIL_TO_PASS"], list) and has <= _GYM


def write_lists(member: Member) -> dict[str, Any]:
    """What `write` gives, with lists of tests as lists."""
    checks = member.task.checks
    return {**write(member), "FAIL_TO_PASS": list(checks.fail_to_pass), "PASS_TO_PASS": list(checks.pass_to_pass)}


def _write_extra(member: Member) -> dict[str, Any]:
    meta = {"failed_lite_validators": [], "has_test_patch": bool(member.task.checks.patch), "is_lite": False}
    return {**write_lists(member), "meta": meta, "license": member.task.tags.get("licence", "")}


def _write_gym(member: Member) -> dict[str, Any]:
    return {name: value for name, value in write_lists(member).items() if name in _GYM}


SWEBENCH = Format("swebench", "SWE-bench, Verified, Lite, Multilingual, and version 5's columns", _plain, read, write, evaluation=True)
EXTRA = Format("swebench-extra", "SWE-bench-extra (nebius)", _extra, read, _write_extra)
GYM = Format("swegym", "SWE-Gym", _gym, read, _write_gym)
