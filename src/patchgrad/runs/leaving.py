"""A machine leaves its cluster before it ends, so that its work goes on elsewhere at once, and not when the machine is missed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from patchgrad.links import notice

ACTOR = "ray::Served"
"""What Ray calls the process of an actor of ours (`links/ray_link.py`)."""

LOOK = 0.2
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of Ray's on this machine: its process, its name in the cluster, and where the cluster's head is."""

    process: int
    name: str
    head: str

    def drain(self, why: str, seconds: float) -> list[str]:
        """Ray's command after which it places nothing more here."""
        asked = {
            "address": self.head,
            "node-id": self.name,
            "reason": "DRAIN_NODE_REASON_PREEMPTION",
            "reason-message": why,
            "deadline-remaining-seconds": f"{max(1, int(seconds))}",
        }
        return ["ray", "drain-node", *(word for name, value in asked.items() for word in (f"--{name}", value))]

    @property
    def works(self) -> int:
        """How many of our processes Ray has here."""
        return sum(_command(child)[:1] == [ACTOR] for child in _children(self.process))


def nodes() -> list[Node]:
    """The nodes of this user's on this machine."""
    found = []
    for process in _processes():
        with suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().strip() == "raylet" and Path(f"/proc/{process}").stat().st_uid == os.getuid():
                given = dict(word.split("=", 1) for word in _command(process) if word.startswith("--") and "=" in word)
                found.append(Node(process, given.get("--node_id", ""), given.get("--gcs-address", "")))
    return found


def told(leaving: Sequence[Node], why: str) -> None:
    """They have notice; who works there gives it back within seconds, and who begins there ends at once."""
    for node in leaving:
        with suppress(OSError):
            notice.give(node.process, why)


def empty(leaving: Sequence[Node], seconds: float) -> bool:
    """Is nothing of ours left on these nodes, in this time?"""
    last = time.monotonic() + seconds
    while any(node.works for node in leaving):
        if time.monotonic() > last:
            return False
        time.sleep(LOOK)
    return True


def _processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _children(process: int) -> list[int]:
    found = []
    for child in _processes():
        with suppress(OSError):
            if int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1]) == process:
                found.append(child)
    return found


def _command(process: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return []
