"""A folder for weights goes with the process that made it, whatever ends that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from patchgrad.links.kept import KeptFolder

MAKER = """
import subprocess, sys, time
from patchgrad.links.kept import KeptFolder
kept = KeptFolder("patchgrad-", 0)
(kept.path / "below").mkdir()
subprocess.Popen([sys.executable, "-c", WRITER, str(kept.path)])
print(kept.path, flush=True)
time.sleep(600)
"""

WRITER = """
import itertools, pathlib, sys, time
for number in itertools.count():
    for folder in (pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]) / "below"):
        if not folder.is_dir():
            sys.exit()
        folder.joinpath(str(number)).write_text("something")
"""


def gone(path: Path) -> bool:
    """Is it no more, or within seconds?"""
    last = time.monotonic() + 60
    while path.exists() and time.monotonic() < last:
        time.sleep(0.05)
    return not path.exists()


def test_a_folder_is_gone_though_its_maker_was_killed_and_another_process_writes_to_it() -> None:
    maker = subprocess.Popen([sys.executable, "-c", f"WRITER = {WRITER!r}\n{MAKER}"], stdout=subprocess.PIPE, text=True)
    with maker:
        assert maker.stdout is not None
        path = Path(maker.stdout.readline().strip())
        assert path.is_dir()
        maker.kill()
    assert gone(path)


def test_a_folder_whose_keeper_was_killed_is_gone_when_it_is_closed() -> None:
    kept = KeptFolder("patchgrad-", 0)
    (kept.path / "weights").write_text("something")
    (keeper,) = subprocess.check_output(["pgrep", "-f", str(kept.path)], text=True).split()
    os.kill(int(keeper), signal.SIGKILL)
    kept.close()
    assert not kept.path.exists()
    kept.close()


def test_a_folder_is_in_memory_only_where_there_is_room_for_it() -> None:
    there, elsewhere = KeptFolder("patchgrad-", 1 << 10), KeptFolder("patchgrad-", 1 << 60)
    assert there.path.parent == Path("/dev/shm")
    assert elsewhere.path.parent != there.path.parent
    assert [kept.path.stat().st_mode & 0o777 for kept in (there, elsewhere)] == [0o700] * 2, "nobody else reads it"
    for kept in (there, elsewhere):
        kept.close()


FORKS = """
import os, sys
from patchgrad.links.kept import KeptFolder
kept = KeptFolder("patchgrad-", 0)
if not (forked := os.fork()):
    sys.exit()
os.waitpid(forked, 0)
print(kept.path.is_dir(), kept.path)
"""


def test_the_end_of_a_process_that_its_maker_forked_leaves_it() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=120)
    there, _, path = done.stdout.strip().partition(" ")
    assert there == "True"
    assert gone(Path(path))
