"""What git says of a repository on this machine, or in a sentence why it says nothing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from patchgrad.errors import TaskError

SECONDS = 1800
_OWNER = re.compile(r"detected dubious ownership in repository at '(.+?)'$", re.MULTILINE)


class NoRepository(TaskError):
    """A folder in which git finds no repository."""


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints in a folder, byte for byte; `TaskError` with its reason where it refuses."""
    return told(["-C", str(folder), "-c", "core.quotePath=true", *arguments], f"git {arguments[0]} failed in {folder}", stdin)


def told(words: Sequence[str], failed: str, stdin: bytes = b"") -> bytes:
    """The same for any words; `failed` begins the sentence about a refusal whose reason is git's own.

    `NoRepository` where there is none. A repository of another user is named as such: git reads none until it is told to trust it.
    """
    plain = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}  # its reasons are read below, and nobody is there to answer
    try:
        done = subprocess.run(["git", *words], input=stdin, env=plain, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise TaskError(f"{failed}: it did not end within {SECONDS // 60} minutes.") from None
    except FileNotFoundError:
        raise TaskError(f"{failed}: there is no git on this machine; install it.") from None
    if not done.returncode:
        return done.stdout
    said = done.stderr.decode("utf-8", "surrogateescape")
    if owned := _OWNER.search(said):
        raise TaskError(
            f"{owned[1]} belongs to another user, and git reads no repository of another owner (dubious ownership). Where you trust it:"
            f" git config --global --add safe.directory {shlex.quote(owned[1])}"
        )
    if "not a git repository" in said:
        raise NoRepository(f"{failed}: {_reason(said)}.")
    raise TaskError(f"{failed}: {_reason(said)}.")


def _reason(said: str) -> str:
    """What git says is the matter, in one line."""
    lines = [line.strip().removeprefix("fatal: ").rstrip(".") for line in said.splitlines() if line.strip()]
    fatal = [line.strip().removeprefix("fatal: ").rstrip(".") for line in said.splitlines() if line.startswith("fatal: ")]
    return (fatal or lines or ["it gave no reason"])[0][:300].encode("utf-8", "replace").decode()
