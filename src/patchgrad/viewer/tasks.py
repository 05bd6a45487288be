"""The tasks of a run or a set as a table of counts: a row a package, a column a family of bugs, darker where attempts solve more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from patchgrad.errors import Refuse, stop
from patchgrad.store import Run
from patchgrad.values import Task
from patchgrad.viewer.charts import bar, legend
from patchgrad.viewer.words import counted

MOST = 40  # rows, and columns beyond which families are put together

Attempts = Mapping[str, tuple[int, int]]
"""Task id -> (solved, attempts)."""


def of_run(run: Run, refuse: Refuse = stop) -> str:
    """The section for a run's page, with how hard its tasks have been so far."""
    attempts: dict[str, tuple[int, int]] = {}
    for row in run.rollouts.rows(columns=["task", "solved", "phase"], refuse=refuse):
        if row["phase"] == "demonstrations":  # the demonstrator's
            continue
        solved, tries = attempts.get(row["task"], (0, 0))
        attempts[row["task"]] = solved + bool(row["solved"]), tries + 1
    return section(list(run.tasks.all(refuse).values()), attempts)


def section(tasks: Sequence[Task], attempts: Attempts) -> str:
    """HTML: bars by kind, then the table. Empty without tasks."""
    if not tasks:
        return ""
    kinds = _frequent(task.tags.get("kind", "repair") for task in tasks)
    families = _frequent(family for task in tasks for family in families_of(task))[:MOST]
    packages = _frequent(_package(task) for task in tasks)
    tried = sum(tries for _, tries in attempts.values())
    note = f"{counted(len(tasks), 'task')} of {counted(len(packages), 'package')}."
    note += " A cell counts tasks; the darker, the larger the share of attempts that solved them." if tried else " A cell counts tasks."
    rows = "".join(_bar(name, [t for t in tasks if _package(t) == name], kinds, attempts) for name in packages[:MOST])
    more = f'<p class="note">{len(packages) - MOST} more packages are not shown.</p>' if len(packages) > MOST else ""
    table = _table(tasks, packages[:MOST], families, attempts) if families else ""
    return f'<p class="note">{note}</p>{legend(kinds)}<div class="rows">{rows}</div>{table}{more}'


def _bar(name: str, own: Sequence[Task], kinds: Sequence[str], attempts: Attempts) -> str:
    counts = Counter(task.tags.get("kind", "repair") for task in own)
    said = counted(len(own), "task") + _solved(own, attempts)
    return f"<span>{escape(name)}</span>{bar(counts, kinds)}<span>{said}</span>"


def _table(tasks: Sequence[Task], packages: Sequence[str], families: Sequence[str], attempts: Attempts) -> str:
    cells: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        for family in families_of(task):
            cells.setdefault((_package(task), family), []).append(task)
    head = "".join(f"<th>{escape(family)}</th>" for family in families)
    body = "".join(
        f"<tr><td>{escape(package)}</td>{''.join(_cell(cells.get((package, family), []), attempts) for family in families)}</tr>"
        for package in packages
    )
    return f'<div class="wide"><table class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(own: Sequence[Task], attempts: Attempts) -> str:
    if not own:
        return "<td></td>"
    solved, tries = _sum(own, attempts)
    shade = f' style="--share:{solved / tries:.2f}" title="{solved} of {counted(tries, "attempt")} solved"' if tries else ""
    return f"<td{shade}>{len(own)}</td>"


def _solved(own: Sequence[Task], attempts: Attempts) -> str:
    solved, tries = _sum(own, attempts)
    return f" · {100 * solved / tries:.0f} % of {counted(tries, 'attempt')} solved" if tries else ""


def _sum(own: Sequence[Task], attempts: Attempts) -> tuple[int, int]:
    found = [attempts.get(task.id, (0, 0)) for task in own]
    return sum(solved for solved, _ in found), sum(tries for _, tries in found)


def _package(task: Task) -> str:
    return task.tags.get("package") or task.tags.get("source") or "made here"


def families_of(task: Task) -> list[str]:
    """The families of a task's bugs: two of a pair, none where the tag is missing."""
    return [name for name in task.tags.get("family", "").split("+") if name]


def _frequent(names: Iterable[str]) -> list[str]:
    counts: Counter[Any] = Counter(names)
    return sorted(counts, key=lambda name: (-counts[name], name))
