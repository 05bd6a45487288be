"""What a run waits for right now, as the process that makes it says: in words, and no more than is known of that process."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from patchgrad.errors import PatchgradError
from patchgrad.store import Run, status
from patchgrad.viewer.site.now import last_phase
from patchgrad.viewer.words import counted

ATTEMPTS = {
    "sampling": "the policy's answer",
    "tools": "a tool's answer",
    "tests": "the tests of the submission",
    "judges": "a judge",
    "sandboxes": "a sandbox",
    "memory": "memory for a sandbox",
}
"""What attempts wait for."""

ALL = {
    "training": "the trainer computes",
    "weights": "the policies take new weights over",
    "checkpoint": "a checkpoint is written",
    "probe": "the sampler is checked",
}
"""What all of the run waits for."""

SILENT = 60.0
"""Seconds after which it is told that a process elsewhere is silent: it says something every ten."""


@dataclass(frozen=True, slots=True)
class Doing:
    """A sentence about it, and what an attempt is that has no ending, as far as the process that makes it tells."""

    said: str
    attempts: Literal["running", "interrupted", "not ended"] = "running"


def doing(run: Run) -> Doing:
    """Nothing is said of a run whose process is at its end, or whose folder has no word of it."""
    try:
        return _doing(run, status.read(run.folder))
    except (KeyError, TypeError, ValueError, AttributeError):  # somebody else wrote it
        return Doing("", "not ended")


def _doing(run: Run, told: Mapping[str, Any]) -> Doing:
    ended = str(told.get("ended", ""))
    if not told:
        return Doing("", "not ended")
    if ended == "done":
        return Doing("", "interrupted")
    if ended:
        how = "was interrupted" if ended == "interrupted" else f"ended with an error: {ended.removeprefix('failed: ').rstrip('.')}"
        return Doing(f"Its process {how}.{_resumed(run)}", "interrupted")
    match status.state(told):
        case "gone":
            return Doing(f"Its process is gone: it was killed, or its machine began anew.{_resumed(run)}", "interrupted")
        case "stopped":
            return Doing(f"Its process is stopped by a signal, and waits for `kill -CONT {told['pid']}`.")
        case "elsewhere" if (silent := time.time() - told["at"]) > SILENT:
            return Doing(f"Its process, which is of another machine or container, has said nothing for {silent / 60:.0f} min.", "not ended")
        case "unknown" if (silent := time.time() - told["at"]) > SILENT:
            said = f"Its process has said nothing for {silent / 60:.0f} min, and whether it is there cannot be known here."
            return Doing(said, "not ended")
    return Doing(f"Right now: {_work(told)}.")


def _resumed(run: Run) -> str:
    """How it goes on; nothing where all of it is committed."""
    if _whole(run):
        return ""
    verb = "the same `patchgrad evaluate` with --resume" if run.evaluates else f"`patchgrad train --run {run.folder} --resume`"
    return f" It goes on with {verb}."


def _whole(run: Run) -> bool:
    """Is nothing left to do, as after the end of a run that has learned nothing?"""
    if run.evaluates:
        return (run.folder / "report.json").exists()
    try:
        return bool(run.state().get("step") == last_phase(tomllib.loads(run.recipe)))
    except (PatchgradError, OSError, ValueError):
        return False


def _work(told: Mapping[str, Any]) -> str:
    """`stage 1, iteration 2 of 8, 12 of 64; 3 attempts wait for the policy's answer, 1 for memory for a sandbox`."""
    phase, waits = told.get("phase") or {}, told.get("waits") or {}
    name = f"{phase['name']}, {phase['done']} of {phase['total']}" if phase else "the run begins"
    parts: list[str] = []
    for what, words in ATTEMPTS.items():
        if count := waits.get(what):
            who = str(count) if parts else f"{counted(count, 'attempt')} wait{'s' if count == 1 else ''}"
            parts.append(f"{who} for {words}")
    return "; ".join(part for part in (name, ", ".join(parts), *(words for what, words in ALL.items() if waits.get(what))) if part)
