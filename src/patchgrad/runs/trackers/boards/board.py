"""What a board is, and which ones there are by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from patchgrad.errors import ConfigError, MissingDependency

BOARDS = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}
"""By its name the package that a board needs."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that a board shows: its folder, what it is called, an id that stays the same when it is resumed, and its recipe."""

    folder: Path
    name: str
    id: str
    recipe: Mapping[str, Any]

    def settings(self) -> dict[str, str | int | float | bool]:
        """The recipe in one level, `optimiser.rank = 16`; lists as text."""
        return dict(_flat("", self.recipe))


class Board(Protocol):
    """Takes figures of a step of the run, and attempts as text; what it was given is kept when `close` returns."""

    def figures(self, step: int, figures: Mapping[str, float]) -> None: ...
    def text(self, step: int, name: str, text: str) -> None: ...
    def close(self) -> None: ...


def opened(name: str, subject: Subject, options: Mapping[str, Any]) -> Board:
    """The board of this name. Raises `MissingDependency` without its package, `ConfigError` for options that it does not take."""
    try:
        made = import_module(f"patchgrad.runs.trackers.boards.{name}")
    except ModuleNotFoundError as error:
        if error.name != BOARDS[name]:
            raise
        raise MissingDependency(f"The board {name} needs the package {BOARDS[name]}: pip install 'patchgrad[{name}]'.") from None
    try:
        board: Board = made.opened(subject, **options)
    except TypeError as error:
        raise ConfigError(f"The board {name} takes no such options ({error}).") from error
    return board


def _flat(above: str, table: Mapping[str, Any]) -> list[tuple[str, str | int | float | bool]]:
    found: list[tuple[str, str | int | float | bool]] = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            found += _flat(f"{above}{key}.", value)
        else:
            found.append((above + key, value if isinstance(value, bool | int | float | str) else str(value)))
    return found
