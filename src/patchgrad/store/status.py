"""What the process that writes a run says of itself, `status.json`: which it is, and what it does. It is replaced as a whole.

Nothing of a run rests on it: it may be lost, and it is not waited for until it is on the disk.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

NAME = "status.json"

State = Literal["there", "stopped", "gone", "elsewhere", "unknown"]


def write(folder: Path, told: Mapping[str, Any]) -> None:
    """Replaces it; an `OSError` where it cannot be written."""
    partial = folder / f".{NAME}.partial"
    partial.write_text(json.dumps(told) + "\n")
    partial.replace(folder / NAME)


def read(folder: Path) -> dict[str, Any]:
    """What it says; empty where there is none, as in a run that an older version made."""
    try:
        told = json.loads((folder / NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def process() -> dict[str, Any]:
    """What tells this process from every other one, also after its number was given to another."""
    return {"pid": os.getpid(), "started": _facts(os.getpid())[1], **_here()}


def state(told: Mapping[str, Any]) -> State:
    """Is that process there, is it stopped by a signal, or is it gone? Nobody here knows of another machine's, or another container's.

    It is `unknown` where it cannot be read which machine this is, or that one was.
    """
    here = _here()
    if not (told.get("boot") and here["boot"]):
        return "unknown"
    if told["boot"] != here["boot"]:  # another machine, or this one before it began anew
        if not (told.get("machine") and here["machine"]):
            return "unknown"
        return "gone" if told["machine"] == here["machine"] else "elsewhere"
    if told.get("space") != here["space"]:
        return "elsewhere"
    doing, started = _facts(told["pid"])
    if not started or started != told["started"] or doing in "ZX":
        return "gone"
    return "stopped" if doing in "Tt" else "there"


def _facts(pid: int) -> tuple[str, str]:
    """What a process does, as a letter of the kernel's, and when it began, in ticks; empty where it is not there."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def _here() -> dict[str, str]:
    """This machine, this beginning of it, and the space of process numbers in it; each empty where that cannot be read."""
    named = _text("/etc/machine-id")  # containers of an image may share it, so their name stands beside it
    return {
        "machine": f"{named} {socket.gethostname()}" if named else "",
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "space": _space(),
    }


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text().strip()
    return ""


def _space() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""
