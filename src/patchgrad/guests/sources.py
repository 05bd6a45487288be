"""Tasks for the programs of others, as sources: of a set, of rows, or generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from patchgrad.contracts import TaskSource
from patchgrad.errors import ConfigError
from patchgrad.packages.sites import cache
from patchgrad.runs.tasks import Listed
from patchgrad.tasks.sets import load_set
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.values import Task

Split = Literal["train", "held_out"]


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated tasks, the same for the same seed, none of which is in both splits; their archives lie in `folder`."""

    folder: Path = field(default_factory=lambda: cache() / "generated")

    def __call__(self, split: Split, count: int, seed: int) -> Sequence[Task]:
        """So many of them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return synthetic_tasks(count, seed, split == "held_out", self.folder)


def of_set(folder: str | Path, level: str = "report") -> TaskSource:
    """The tasks of a folder that `patchgrad tasks` wrote, with statements of this level. Held out are those whose split says so."""
    return Listed(load_set(Path(folder), level))


def taken(source: TaskSource | Callable[..., Sequence[Task]], split: Split, count: int, seed: int) -> dict[str, Task]:
    """So many tasks of a source by their ids; all of those that there are where `count` is larger. `ConfigError` for none."""
    found = {task.id: task for task in list(source(split, count, seed))[:count]}
    if not found:
        raise ConfigError(f"The source gives no tasks of the split {split}: give a count above 0, or another split.")
    return found
