"""What memory this machine has free, and what a process takes before it holds anything of a model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from patchgrad.errors import OutOfMemory

LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Of control groups, by version: a limit, what is used of it, and what of that are files that the kernel would let go."""


def free(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that this process could still have: what the kernel calls available, or what is left of a control group's limit."""
    lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
    found = int(lines["MemAvailable"].split()[0]) * 1024
    for limit, used, told, files in LIMITS:
        try:
            let_go = dict(line.split() for line in (cgroup / told).read_text().splitlines()).get(files, "0")
            held = int((cgroup / used).read_text()) - int(let_go)
            found = min(found, max(0, int((cgroup / limit).read_text()) - held))
        except (OSError, ValueError):  # there is no group of this version, or its limit is `max`
            continue
    return found


@cache
def empty(gradient_checkpointing: bool) -> int:
    """Bytes of a process that has imported what a run does, and made a step of next to nothing; another process tells it.

    One that is killed before it told is asked once more. `OutOfMemory` where that one is, too.
    """
    code = f"import patchgrad.runs.pipeline; from patchgrad.runs.planning.rehearsal import idle; print(idle({gradient_checkpointing}))"
    for _ in range(2):
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if told.returncode >= 0:
            told.check_returncode()
            return int(told.stdout)
    name = signal.Signals(-told.returncode).name
    raise OutOfMemory(f"A process that only imports what a run does was ended by {name}, and so was the next: free some memory first.")
