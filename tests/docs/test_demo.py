"""`make demo` ends with the page of a finished run: its own lines are run, and a browser's request is answered."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from patchgrad.cli import main

PROJECT = Path(__file__).parents[2]
PROGRAM = f'#!/bin/sh\nexec {sys.executable} -c "import sys; from patchgrad.cli import main; sys.exit(main())" "$@"\n'


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None or shutil.which("make") is None, reason="bubblewrap or make is not installed")
def test_it_trains_what_is_not_finished_and_prints_an_address_that_answers(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    run, program = tmp_path / "run", tmp_path / "bin" / "patchgrad"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    assert main(["train", "tiny", "--run", str(run)]) == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["make", "-o", "install", "-o", ".venv/.view", "demo", f"BIN={program.parent}", f"RUN={run}", f"PORT={port}"]
    told = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "MAKEFLAGS")}
    told |= {"PYTHONPATH": str(PROJECT / "src"), "OMP_NUM_THREADS": "1"}
    made = subprocess.Popen(words, cwd=PROJECT, env=told, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert made.stdout is not None
        address = next(found[0] for line in made.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))
        assert address == f"http://127.0.0.1:{port}/"
        page = wait_for(address)
        assert "<html" in page
    finally:
        os.killpg(made.pid, 15)
        made.wait(60)
        if made.stdout is not None:
            made.stdout.close()


def wait_for(address: str) -> str:
    """The page, once somebody listens."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nobody answers at {address}")
