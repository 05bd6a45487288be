"""A paired comparison as Markdown for people who review a change: what it did to the policy's figures, and at which tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchgrad.evaluation.comparing import Versus, versus
from patchgrad.evaluation.summary import shares
from patchgrad.evaluation.table import details, markdown
from patchgrad.values import Report

MARK = "<!-- patchgrad -->"
"""The first line, by which whoever writes comments finds an earlier one."""
_LISTED = 20


def comment(first: Report, second: Report) -> str:
    """Whether a difference was shown, both rows of figures, the tasks that moved, and below a fold what the numbers rest on."""
    if first.name == second.name:
        first, second = replace(first, name=f"{first.name}, before"), replace(second, name=f"{second.name}, now")
    found = versus(first, second)
    moved = _moved(first, second)
    below = ["<details><summary>What these numbers rest on</summary>", ""]
    below += [f"Of {found.second}:", "", *(f"- {sentence}" for sentence in details(second))]
    below += ["", "</details>"]
    lines = [
        MARK,
        f"### Pass@1 {100 * first.pass_at_1.mean:.1f} % before, {100 * second.pass_at_1.mean:.1f} % now",
        "",
        found.sentence,
        "",
        markdown([first, second]),
        *moved,
        *_caveats(found),
        *below,
    ]
    return "\n".join(lines) + "\n"


def _moved(first: Report, second: Report) -> list[str]:
    """The tasks whose share of solved attempts went up or down, those that moved most first."""
    one, other = shares(first), shares(second)
    apart = {task: other[task] - one[task] for task in one.keys() & other.keys() if one[task] != other[task]}
    if not apart:
        return ["No task is solved more or less often than before.", ""]
    rows = [
        f"| `{task}` | {100 * one[task]:.0f} % | {100 * other[task]:.0f} % |"
        for task in sorted(apart, key=lambda task: (-abs(apart[task]), task))[:_LISTED]
    ]
    return ["| task | before | now |", "| --- | --: | --: |", *rows, *_more(len(apart)), ""]


def _more(count: int) -> Sequence[str]:
    return [f"| and {count - _LISTED} more | | |"] if count > _LISTED else []


def _caveats(found: Versus) -> list[str]:
    return [*(f"> {caveat}" for caveat in found.caveats), ""] if found.caveats else []
