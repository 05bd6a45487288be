"""Does a stage of RL still make attempts that hold: that submit, are readable and go on?

A policy that has lost this makes few attempts that it could learn from, so its stage ends. The choice after the stage (`choice.py`) then
says on validation tasks which policy goes on. The guards (`guards.py`) end a whole run, at bounds far beyond these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from patchgrad.recipes.stage import Health

UNREADABLE = ("no command", "several commands", "truncated")


def ailing(health: Health, rows: Iterable[Mapping[str, Any]]) -> str:
    """What the last iterations of a stage all break, in words; nothing where they hold. `rows` are those of `metrics.jsonl`.

    With `submitted` 0.7 and `patience` 2, shares of 0.9, 0.6 and 0.65 give `submitted is 0.6, 0.65, below 0.7`.
    """
    last = [shares(row) for row in rows][-health.patience :]
    if len(last) < health.patience:
        return ""
    found = []
    for name, sign, side in (("submitted", -1, "below"), ("looping", 1, "above"), ("unreadable", 1, "above")):
        bound = getattr(health, name)
        if all(name in row and sign * row[name] > sign * bound for row in last):
            found.append(f"{name} is {', '.join(f'{row[name]:.3g}' for row in last)}, {side} {bound:g}")
    return "; ".join(found)


def shares(row: Mapping[str, Any]) -> dict[str, float]:
    """The share of an iteration's attempts that submitted, and of its turns that made a call again or could not be read."""
    turns = row.get("turns", 0) * row.get("episodes", 0)
    if not turns:
        return {}
    failed = row["failures"]
    return {
        "submitted": row["submitted"],
        "looping": failed.get("looping", 0) / turns,
        "unreadable": sum(failed.get(kind, 0) for kind in UNREADABLE) / turns,
    }
