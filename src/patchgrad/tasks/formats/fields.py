"""The fields of a member, each as plain JSON under a name of its own: what a format has no place for travels as one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.tasks.sets import Member
from patchgrad.values import Checks, HiddenFile, Limits, Repository, Task

ARCHIVES = "archives"
_CHECKS = ("fail_to_pass", "pass_to_pass", "protected", "command")


def of(member: Member) -> dict[str, Any]:
    """Every field; those of the checks stand beside the others, an archive lies at `archives/DIGEST.tar`.

    `Task(id="a", checks=Checks(("t",), ()), ...)` -> `{"id": "a", "fail_to_pass": ["t"], ...}`.
    """
    task = asdict(member.task)
    checks = task.pop("checks")
    task["tags"] = dict(member.task.tags)
    if task["repository"]["kind"] == "archive":
        task["repository"]["location"] = f"{ARCHIVES}/{task['repository']['digest']}.tar"
    checks["test_patch"] = checks.pop("patch")
    told = {**task, **checks, "levels": dict(member.levels), "repair": member.repair, "output": member.output}
    plain: dict[str, Any] = json.loads(json.dumps(told))
    return plain


def changed(member: Member, given: Mapping[str, Any], place: str) -> Member:
    """The member with these fields, each the JSON text of its value; `TaskError` for one that is none."""
    told = of(member)
    for name, text in given.items():
        if name not in told:
            raise TaskError(f"{place}: there is no field {name} of a task, which the column patchgrad_{name} gives: take it out.")
        try:
            told[name] = json.loads(text)
        except (TypeError, ValueError) as error:
            raise TaskError(f"{place}: the column patchgrad_{name} is no JSON text ({error}).") from error
    return made(told, place) if given else member


def made(told: Mapping[str, Any], place: str) -> Member:
    """The member with these fields: `made(of(member), "here")` is the member, its archive at `archives/DIGEST.tar`."""
    try:
        lists = {name: _texts(told[name]) for name in _CHECKS}
        files = tuple(HiddenFile(**file) for file in told["files"])
        checks = Checks(**lists, files=files, parser=told["parser"], patch=told["test_patch"], strict=told.get("strict", False))
        task = Task(
            id=told["id"],
            instruction=told["instruction"],
            repository=Repository(**told["repository"]),
            checks=checks,
            packages=_texts(told["packages"]),
            setup=_texts(told["setup"]),
            limits=Limits(**told["limits"]),
            tags={str(name): str(value) for name, value in told["tags"].items()},
        )
        return Member(task, dict(told["levels"]), told["repair"], told["output"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TaskError(f"{place}: its patchgrad_ columns make no task ({error}): export the set again.") from error


def same(one: object, other: object) -> bool:
    """Are these the same field? A set's file keeps no order of names."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def with_tags(member: Member, **tags: str) -> Member:
    """The member with these tags over its own."""
    return replace(member, task=replace(member.task, tags={**member.task.tags, **tags}))


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r} is no list of texts")
    return tuple(values)
