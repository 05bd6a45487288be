"""How much of a sandbox's files the host reads and keeps as a state: what fits on the sandbox's own disk when it is laid out again.

A file with a hole takes no room where it was made, and all of its size where a state is opened; so does each further name of one file:

    six files of 200 MiB that are holes       44 KiB on the disk, 1,200 MiB as a state
    ten names of one file of 40 MiB           40 MiB on the disk,   400 MiB as a state

Both are more than a disk of 256 MiB, and are refused before they are read. Standard library only.
"""

from __future__ import annotations

import os

LONGEST = 3072  # bytes of a path that is part of a state: a kernel's 4096, less where the folders of the nest lie
_PAGE = 4096
_OF_NAMES = 16  # names may take a sixteenth of what contents may: 16 MiB beside 256, or 65,536 paths of 190 bytes
_LEAST_NAMES = 1 << 20
_ENTRY = 64


class Unkept(Exception):
    """The files are no state that the host keeps; `str()` says why, as the end of a sentence that begins with `TOLD`."""


def nameable(path: str) -> None:
    """Raises `Unkept` for a path that is too long to be opened where a state is laid out."""
    if len(os.fsencode(path)) >= LONGEST:
        raise Unkept(f"a path in /testbed is longer than {LONGEST} bytes")


TOLD = "The sandbox has no state that can be kept: "


class Meter:
    """Counts what a state takes, and raises `Unkept` before more than `most` bytes of it are read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._laid_out = self._named = 0

    def file(self, size: int) -> None:
        """One more file of so many bytes, which take whole pages."""
        self._laid_out += -(-size // _PAGE) * _PAGE
        if self._laid_out > self._most:
            told = f"what changed in /testbed takes more than its {self._most >> 20} MiB of disk when it is laid out"
            raise Unkept(f"{told}, each name of a file and its holes counted")

    def name(self, path: str) -> None:
        """One more entry of this path."""
        self._named += len(os.fsencode(path)) + _ENTRY
        if self._named > (most := max(_LEAST_NAMES, self._most // _OF_NAMES)):
            raise Unkept(f"the names of what changed in /testbed take more than {most >> 20} MiB")
