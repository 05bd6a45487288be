"""Runs a program and ends it, children included, when whoever started this is gone: a killed trainer leaves no server on a GPU.

    python keeper.py FOLDER PROGRAM ARGUMENT...      its standard input is a pipe that the starter holds open

What then lies in the folder goes too, weights in memory for one, unless the pipe has said `KEEP`. A program that ends by itself ends this.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

KEEP = b"k"
GRACE = 20.0  # seconds in which a program may put its things away
PR_SET_PDEATHSIG = 1


def main() -> int:
    """The program's exit code."""
    libc = ctypes.CDLL(None)
    child = subprocess.Popen(
        sys.argv[2:],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),  # for when this is killed itself
    )

    def finish(keep: bool) -> None:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            child.terminate()
            child.wait(GRACE)
        _end(child.pid)
        if not keep:
            shutil.rmtree(sys.argv[1], ignore_errors=True)

    def watch() -> None:
        said = b""
        while more := os.read(0, 1 << 10):
            said += more
        threading.Thread(target=finish, args=(KEEP in said,), daemon=False).start()  # the end of this waits for it

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: threading.Thread(target=finish, args=(False,)).start())
    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    _end(child.pid)
    return code


def _end(group: int) -> None:
    """What the program has left behind ends: by itself, so that it frees the memory that it shares, or after a while in any case."""
    deadline = time.monotonic() + GRACE
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            time.sleep(0.05)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
