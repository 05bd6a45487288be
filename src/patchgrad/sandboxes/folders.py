"""Folders of the host that sandboxes have at the same path, to read and to run and never to write: programs of others that work inside.

They are of the user's choice. Whoever is in a sandbox can read all of them, and so can the code that is graded: nothing secret, and nothing
that solves a task, may lie there. What lies in one has to be open to all users of the host, since the one in a sandbox is none of its own.
A link that leads out of a folder need not lead anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from patchgrad.errors import ConfigError
from patchgrad.values.places import unfit

_OF_THE_KERNEL = ("/proc", "/sys", "/dev")


def shown(folders: Iterable[str]) -> tuple[str, ...]:
    """The folders; `ConfigError` for one that no sandbox can have, whatever is there."""
    chosen = tuple(folders)
    for folder in chosen:
        if wrong := unfit(folder):
            raise ConfigError(f"sandbox.folders: {wrong}")
    return chosen


def found(folders: Iterable[str]) -> dict[str, str]:
    """Where each of them really lies on this host; `ConfigError` for one that is not there."""
    places = {folder: os.path.realpath(folder) for folder in folders}
    for folder, place in places.items():
        if wrong := unfit(place, _OF_THE_KERNEL):
            raise ConfigError(f"sandbox.folders: {folder} leads to {place}, and {wrong}")
        if not os.path.isdir(place):
            raise ConfigError(f"sandbox.folders: {folder} is no folder of this host; put there what is to be seen, or leave it out")
    return places
