"""Who is told of a run: the terminal, and whatever else the recipe names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from patchgrad.contracts import Tracker
from patchgrad.recipes.component import Component
from patchgrad.runs.components.construct import conforming
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.trackers.apart import Apart
from patchgrad.runs.trackers.beside import Beside
from patchgrad.runs.trackers.boards.board import BOARDS
from patchgrad.runs.trackers.several import Several
from patchgrad.runs.trackers.terminal import choose


@contextmanager
def tracking(chosen: Sequence[Component], folder: Path, registry: Registry = BY_NAME, *, quiet: bool = False) -> Iterator[Tracker]:
    """All trackers as one, each of which is told on its own: one that fails or hangs touches neither the run nor the others.

    One of the user's is made with the run's `folder` if it asks for it; with `quiet` the terminal shows nothing.
    """
    own = [_made(part, f"trackers.{i}", folder, registry) for i, part in enumerate(chosen) if part.name != "terminal"]
    shown = quiet or all(part.name != "terminal" for part in chosen)
    with choose(quiet=shown) as terminal:
        try:
            yield Several([terminal, *own]) if own else terminal
        finally:
            for one in own:
                one.close()


def _made(part: Component, key: str, folder: Path, registry: Registry) -> Apart | Beside:
    if part.name in BOARDS:
        return Apart(folder, part.name, part.options)
    return Beside(conforming(key, registry.make("trackers", part, key, {"folder": folder}), Tracker))
