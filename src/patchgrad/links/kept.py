"""A folder that is gone when the process that made it is, however that ends."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/dev/shm")

KEEPER = """
import os, shutil, sys, time
sys.stdin.buffer.read(1)
for _ in range(600):  # others may write to it for a moment
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.lexists(sys.argv[1]):
        break
    time.sleep(0.1)
"""
"""Its standard input is a pipe that the maker holds open: a byte says that it is time, and so does the maker's end."""

ENDS = 65.0
"""Seconds in which it has ended: it tries for a minute."""


class KeptFolder:
    """A fresh folder, whose name begins so and has its maker's number; a small process waits for its maker's end.

    It is in memory where room for a `size` in bytes is free there so many `times`. Without a size, and where there is no such room, it is
    where temporary files are.
    """

    def __init__(self, prefix: str, size: int | None = None, times: float = 3) -> None:
        roomy = size is not None and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > times * size
        self.path = (MEMORY if roomy else Path(tempfile.gettempdir())) / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
        keeper = subprocess.Popen([sys.executable, "-I", "-S", "-c", KEEPER, str(self.path)], stdin=subprocess.PIPE, start_new_session=True)
        self._end = weakref.finalize(self, _ended, keeper, self.path, os.getpid())
        self.path.mkdir(0o700)  # when somebody waits to take it away

    def close(self) -> None:
        """It is no more when this returns."""
        self._end()


def _ended(keeper: subprocess.Popen[bytes], path: Path, maker: int) -> None:
    if os.getpid() != maker:  # a process that the maker forked is at its end, and the folder is still the maker's
        return
    with suppress(subprocess.TimeoutExpired):
        keeper.communicate(b"\n", timeout=ENDS)  # what the maker has forked may hold the pipe open for good
    keeper.kill()
    shutil.rmtree(path, ignore_errors=True)  # what kept it may have been killed
