"""The reward of a Harbor task: the number that its verifier has left in a file, which is printed behind a mark when it has ended."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from patchgrad.values import Status

REWARD = "reward"
_FILE = re.compile(r"^>>>>> Harbor (reward\.json|reward\.txt)\n", re.MULTILINE)


def harbor(text: str) -> dict[str, Status]:
    """`reward` has passed where the number is at least 1: `>>>>> Harbor reward.txt` and `0.5` -> `{"reward": "failed"}`.

    As Harbor reads it, reward.json is an object of numbers, and true is one. Of several numbers the one called `reward` counts. A file that
    holds no finite number names nothing.
    """
    parts = _FILE.split(text)
    if len(parts) < 3:
        return {}
    value = _number(parts[-1]) if parts[-2] == "reward.txt" else _told(parts[-1])
    return {} if value is None else {REWARD: "passed" if value >= 1 else "failed"}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _told(text: str) -> float | None:
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not all(_finite(value) for value in said.values()):
        return None
    value = said.get(REWARD) if len(said) != 1 else next(iter(said.values()))
    return None if value is None else float(value)


def _finite(value: object) -> bool:
    if not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False
