"""What a page that is open costs a run that goes on: CPU seconds of its server beside those of the run.

    python benchmarks/viewing/live.py [--recipe laptop] [--seed 0] [--view list|attempt|curves] [--minutes 60] [-- OPTIONS OF TRAIN]

Trains the recipe, and serves its page to a browser that has this view open from the first attempt to the end, or until the run is stopped
after so many minutes. CPU seconds are those of all processes of a side, by the kernel's count. The browser is told too: it is the reader's,
and runs on the reader's machine. Prints the shares, and JSON last.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

from patchgrad.store import Run

PATCHGRAD = str(Path(sys.executable).with_name("patchgrad"))
VIEWS: Mapping[str, str] = {"list": "#/list/0", "attempt": "#/attempt/0/{attempt}", "curves": "#/curves"}


def main() -> None:
    """Measures once; the sides are told beside each other in the same run."""
    options = parser(__doc__)
    options.add_argument("--recipe", default="laptop")
    options.add_argument("--seed", default="0")
    options.add_argument("--view", choices=tuple(VIEWS), default="list")
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("more", nargs="*")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = measured(Path(folder) / "run", [given.recipe, "--seed", given.seed, *given.more], given.view, 60 * given.minutes)
    spent = f"run {told['run']:.1f} CPU s in {told['wall']:.0f} s"
    print(f"{spent}, server {told['server']:.2f} ({told['share']:.2%}), browser {told['browser']:.1f}")
    tell({"recipe": given.recipe, "options": given.more, "view": given.view, **told})


def measured(folder: Path, recipe: Sequence[str], view: str, seconds: float) -> dict[str, float]:
    """CPU seconds of run, server and browser, the share of the server in the run's, and seconds on the clock."""
    began = time.monotonic()
    run = subprocess.Popen([PATCHGRAD, "train", *recipe, "--run", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(run.kill)  # whatever else fails; of a process that has ended it is nothing
    attempt = _first(folder, run)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([PATCHGRAD, "view", str(folder), "--no-open", "--port", str(port)], stdout=subprocess.DEVNULL)
    atexit.register(server.kill)
    _answers(port, server)
    stop = threading.Timer(max(0.0, seconds - (time.monotonic() - began)), run.send_signal, [signal.SIGINT])
    stop.daemon = True
    stop.start()
    spent = _watched(run, f"http://127.0.0.1:{port}/{VIEWS[view].format(attempt=quote(attempt, safe=''))}")
    stop.cancel()
    wall = time.monotonic() - began
    server.terminate()
    served = _seconds(os.wait4(server.pid, 0)[2])
    every = _seconds(resource.getrusage(resource.RUSAGE_CHILDREN))
    return {"run": spent, "server": served, "browser": every - spent - served, "share": served / spent, "wall": wall}


def _first(folder: Path, run: subprocess.Popen[bytes]) -> str:
    """The id of an attempt, as soon as a table has one."""
    while run.poll() is None:
        if (folder / "run.json").exists() and (rows := Run.open(folder).rollouts.rows(columns=["attempt"])):
            return str(rows[0]["attempt"])
        time.sleep(0.5)
    raise SystemExit("The run ended before it had an attempt: try it by itself to see why.")


def _answers(port: int, server: subprocess.Popen[bytes]) -> None:
    """Waits until it listens."""
    while server.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("The page's server ended: try `patchgrad view RUN --no-open` by itself to see why.")


def _watched(run: subprocess.Popen[bytes], address: str) -> float:
    """The CPU seconds of a run that is watched to its end, or until it is interrupted."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = opened.new_page()
        page.goto(address)
        _, status, spent = os.wait4(run.pid, 0)
        opened.close()
    if os.waitstatus_to_exitcode(status) not in (0, 130):
        raise SystemExit("The run failed: try it by itself to see why.")
    return _seconds(spent)


def _seconds(usage: Any) -> float:
    return float(usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    main()
