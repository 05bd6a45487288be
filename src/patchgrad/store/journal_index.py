"""Where each record of a journal stands: by its address, and by the attempt that it is of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchgrad.store import files

PREFIX = b'{"address": "'
_BODY = re.compile(rb', "(turn|ending)": \{')
Place = tuple[Path, int]
"""A file, and the byte at which a line begins."""


class Index:
    """Built from the beginnings of lines, without reading their arrays; it goes on where it was when a file has grown."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self._attempts: dict[str, dict[str, Place]] = {}
        self._read: dict[Path, int] = {}

    def note(self, address: str, trajectory: str, place: Place, size: int) -> None:
        """A line of `size` bytes; where an address stands twice, the later line counts."""
        path, offset = place
        self.places[address] = place
        self._attempts.setdefault(trajectory, {})[address] = place
        self._read[path] = offset + size

    def update(self, paths: Iterable[Path]) -> None:
        """Note what these files have by now and had not when they were read."""
        for path in paths:
            if path.stat().st_size == self.read(path):
                continue
            for offset, line in files.lines(path, self.read(path)):
                address = line[len(PREFIX) : len(PREFIX) + 64].decode("ascii", "replace")
                self.note(address, heading(line)[0], (path, offset), len(line))

    def read(self, path: Path) -> int:
        """How many bytes of a file were noted."""
        return self._read.get(path, 0)

    def of(self, trajectory: str) -> Mapping[str, Place]:
        """Where an attempt's records stand, by address and in the order of writing."""
        return self._attempts.get(trajectory, {})


def heading(line: bytes) -> tuple[str, str]:
    """The attempt that a line is of, and whether it is a `turn` or its `ending`; nothing where the line is damaged."""
    body = _BODY.search(line)
    try:
        return (str(json.loads(line[: body.start()] + b"}")["trajectory"]), body[1].decode()) if body else ("", "")
    except (ValueError, KeyError):
        return "", ""
