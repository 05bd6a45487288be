"""What a process takes before it holds anything of a model is told by another process, which may be killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchgrad.errors import OutOfMemory
from patchgrad.runs.planning.host_memory import empty


def killed(times: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that is started next is killed so many times, before it does anything."""
    marks = [folder / str(number) for number in range(times)]
    lines = [f"[ -e {mark} ] || {{ touch {mark}; kill -9 $$; }}" for mark in marks]
    (folder / "python").write_text("\n".join(["#!/bin/sh", *lines, f'exec {sys.executable} "$@"', ""]))
    (folder / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    empty.cache_clear()


def test_a_process_that_is_killed_before_it_told_what_it_takes_is_asked_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(1, tmp_path, monkeypatch)
    assert 100 << 20 < empty(False) < 2 << 30


def test_where_it_is_killed_again_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(2, tmp_path, monkeypatch)
    with pytest.raises(OutOfMemory, match="ended by SIGKILL, and so was the next: free some memory"):
        empty(False)
