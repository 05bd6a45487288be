"""What a process that has little memory gives back while it trains, and what it keeps while it samples."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
from patchgrad.trainers.allocator import give_back, sparing

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def left():
    "Megabytes that stay when blocks of a megabyte are freed between others that do not go."
    before, blocks, pins = held(), [], []
    for _ in range(128):
        blocks.append(bytearray(1 << 20))
        pins.append(bytearray(2000))
    blocks.clear()
    return (held() - before) >> 20

def faults():
    "Pages that are cleared while eight blocks of a megabyte come and go."
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(100):
            blocks = [bytearray(1 << 20) for _ in range(8)]
            del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] != "told at once":
    bytearray(1 << 24)  # freed at once, so that glibc takes what is smaller from heaps from now on
heaps = 0
if sys.argv[1] == "told with heaps":
    heaps = left()
if sys.argv[1] != "never told":
    give_back()
before = held()
with sparing():
    heaps -= (before - held()) >> 20
    training = left()
print(json.dumps({"heaps": heaps, "training": training, "sampling": faults()}))
"""


def a_process(told: str) -> dict[str, int]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, told], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told so")
def test_a_process_that_was_told_gives_back_what_it_frees_while_it_trains_and_keeps_it_while_it_samples() -> None:
    at_once, later, heaps, never = map(a_process, ("told at once", "told later", "told with heaps", "never told"))
    assert later["training"] < 16 < 100 < never["training"]
    assert at_once["sampling"] < 1000  # 100 x 8 blocks have 204,800 pages
    assert heaps["heaps"] < 16  # of what was freed before
