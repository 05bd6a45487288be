"""Which tasks are for learning and which for measuring, and how much of each kind is learned from.

A task measures something only where nothing like it was trained on. So a split goes by repository, with look-alikes on one side and
with those whose tests install it, or by family of bugs, by kind, or by date; never by single tasks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from patchgrad.errors import TaskError
from patchgrad.packages.sites import distribution
from patchgrad.tasks.evaluation_sets import is_evaluation
from patchgrad.tasks.sets import Member
from patchgrad.values import Task, digest

By = Literal["repository", "family", "kind", "date"]
TAGS: Mapping[By, str] = {"repository": "package", "family": "family", "kind": "kind", "date": "created_at"}

LOOK_ALIKES: tuple[frozenset[str], ...] = (
    frozenset({"toolz", "cytoolz", "funcy", "boltons", "more-itertools", "pydash", "glom"}),
    frozenset({"inflect", "inflection", "python-slugify", "awesome-slugify", "humanize", "num2words", "stringcase"}),
    frozenset({"semver", "packaging", "node-semver"}),
    frozenset({"isodate", "aniso8601", "iso8601", "python-dateutil", "arrow", "pendulum"}),
    frozenset({"cachetools", "diskcache", "lru-dict"}),
    frozenset({"jmespath", "jsonpath-ng", "dpath", "jsonpointer", "jsonpatch"}),
    frozenset({"attrs", "cattrs", "dacite", "marshmallow", "schema", "voluptuous", "cerberus", "schematics", "pydantic"}),
    frozenset({"tabulate", "prettytable", "texttable", "rich"}),
    frozenset({"colorama", "termcolor"}),
    frozenset({"addict", "munch"}),
    frozenset({"parse", "parsimonious", "lark", "pyparsing", "textx", "ply"}),
    frozenset({"sqlparse", "sqlglot"}),
    frozenset({"markdown", "mistune", "commonmark", "markdown-it-py"}),
    frozenset({"h11", "h2", "hpack", "wsproto", "httpcore", "priority"}),
    frozenset({"rfc3986", "hyperlink", "furl", "uritemplate", "idna", "automat"}),
    frozenset({"itsdangerous", "pyjwt"}),
    frozenset({"configobj", "python-dotenv", "tomlkit"}),
    frozenset({"anytree", "treelib", "pygtrie", "intervaltree", "sortedcontainers", "sortedcollections"}),
)
"""Packages that share ideas, names or code: the one is practice for the other."""

MIX: Mapping[str, float] = {"repair": 0.50, "pair": 0.15, "implement": 0.15, "history": 0.20}
"""How much of what is trained on is of which kind, to start from."""

T = TypeVar("T", Task, Member)


def groups(members: Sequence[Member]) -> dict[str, str]:
    """What each package of these tasks and each look-alike counts as in a split by repository: the first name of its group.

    A group is made of look-alikes, and of a package with those of the set that its tests install: an agent could read their source there.
    """
    here = {member.task.tags.get("package", "") for member in members} - {""}
    found = [set(names) for names in LOOK_ALIKES]
    for package in sorted(here):
        pins = {distribution(pin) for m in members if m.task.tags.get("package") == package for pin in m.task.packages}
        near = {package} | (pins & here)
        touching = [group for group in found if group & near]
        found = [group for group in found if not group & near] + [near.union(*touching)]
    return {name: min(group) for group in found for name in group}


def split(members: Sequence[Member], by: By, held_out: Sequence[str] | float, seed: int = 0) -> list[Member]:
    """The members with their tag `split`: `held_out` for the named values, or for about that share of the tasks; evaluation stays.

    By repository a name stands for its whole group too; by date the latest are held out, or those since a day. `TaskError` where one side
    would be empty.
    """
    free = [member for member in members if member.task.tags.get("split") != "evaluation"]
    group = groups(free) if by == "repository" else {}
    values = {member.task.id: _value(member, by, group) for member in free}
    if isinstance(held_out, float):
        out = _share(list(values.values()), held_out, by, seed)
    elif by == "date":
        out = {value for value in values.values() if value >= min(held_out)}
    else:
        out = {group.get(name, name) for name in held_out}
    found = [_tagged(m, "held_out" if values[m.task.id] in out else "train") if m.task.id in values else m for m in members]
    sides = {member.task.tags["split"] for member in found} - {"evaluation"}
    if sides != {"train", "held_out"}:
        raise TaskError(
            f"A split by {by} leaves every task on the side {', '.join(sorted(sides)) or 'evaluation'}: hold out something else."
        )
    return found


def _value(member: Member, by: By, group: Mapping[str, str]) -> str:
    found = member.task.tags.get(TAGS[by], "")
    if not found:
        raise TaskError(f"Task {member.task.id} does not say its {by}, so it cannot be split by it.")
    return group.get(found, found)


def _share(values: Sequence[str], share: float, by: By, seed: int) -> set[str]:
    """Whole values until about that share of the tasks is reached: the latest by date, else by the seed."""
    order = sorted(set(values), reverse=True) if by == "date" else sorted(set(values), key=lambda v: digest(str(seed), v))
    out: set[str] = set()
    for value in order:
        if sum(v in out for v in values) + values.count(value) / 2 > share * len(values):
            continue
        out.add(value)
    return out


def _tagged(member: Member, side: str) -> Member:
    return replace(member, task=replace(member.task, tags={**member.task.tags, "split": side}))


def trainable(tasks: Sequence[T]) -> list[T]:
    """Those that may be trained on: none that is held out, and none of a repository that others measure with, whatever its tags say."""
    return [one for one in tasks if _trainable(one.task if isinstance(one, Member) else one)]


def _trainable(task: Task) -> bool:
    measured = is_evaluation(task.tags.get("package", "")) or is_evaluation(task.id)
    return not measured and task.tags.get("split", "train") not in ("held_out", "evaluation")


def mixed(tasks: Sequence[Task], mix: Mapping[str, float], count: int, seed: int) -> list[Task]:
    """Up to `count` tasks with these shares of each kind; what one kind has too little of, the others fill in their proportion.

    A kind without a share is left out. Tasks without a kind count as `repair`. Where no more than `count` are wanted, all are taken, in
    their order. Raises `TaskError` where none is wanted.
    """
    pools: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: digest(str(seed), task.id)):
        pools.setdefault(_kind(task), []).append(task)
    shares = {kind: mix.get(kind, 0.0) for kind in pools}
    wanted = [task for task in tasks if shares[_kind(task)]]
    if tasks and not wanted:
        kinds = ", ".join(kind for kind, share in mix.items() if share)
        raise TaskError(f"No task is of a kind that is wanted ({kinds}); there are: {', '.join(sorted(pools))}.")
    if count >= len(wanted):
        return wanted
    taken: dict[str, int] = dict.fromkeys(pools, 0)
    for _ in range(count):
        open_ = [kind for kind in pools if shares[kind] and taken[kind] < len(pools[kind])]
        if not open_:
            break
        taken[min(open_, key=lambda kind: ((taken[kind] + 1) / shares[kind], kind))] += 1
    chosen = {task.id for kind, number in taken.items() for task in pools[kind][:number]}
    found = [task for task in tasks if task.id in chosen]
    random.Random(seed).shuffle(found)
    return found


def _kind(task: Task) -> str:
    return task.tags.get("kind", "repair")
