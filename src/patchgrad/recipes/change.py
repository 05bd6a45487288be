"""What a preset has otherwise than the one that it is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Fields that are others, by dotted names, and why."""

    why: str
    to: Mapping[str, str]


def both(values: Mapping[str, str]) -> dict[str, str]:
    """The same fields of both stages of RL."""
    return stages(values, values)


def stages(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Fields of the first stage of RL and of the second."""
    return {f"stages.{i}.{name}": value for i, stage in enumerate((first, second)) for name, value in stage.items()}


def values(*changes: Change) -> dict[str, str]:
    """All of them together, for `config.override`."""
    return {key: value for change in changes for key, value in change.to.items()}
