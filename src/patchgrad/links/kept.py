"""A folder that is gone when the process that made it is, however that ends."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

MEMORY = Path("/dev/shm")

KEEPER = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"
"""Its standard input is a pipe that the maker holds open."""


class KeptFolder:
    """A fresh folder, in memory where three times so many `bytes` are free there; a small process waits for its maker's end."""

    def __init__(self, prefix: str, size: int) -> None:
        roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 3 * size
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if roomy else None))
        keeper = subprocess.Popen([sys.executable, "-I", "-S", "-c", KEEPER, str(self.path)], stdin=subprocess.PIPE, start_new_session=True)
        self._end = weakref.finalize(self, _ended, keeper)

    def close(self) -> None:
        """It is no more when this returns."""
        self._end()


def _ended(keeper: subprocess.Popen[bytes]) -> None:
    keeper.communicate()
