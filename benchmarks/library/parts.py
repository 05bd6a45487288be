"""A benchmark of several parts, each in a process of its own, with the minutes that it may take in all."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.library.command import parser, tell

ALL = 600  # seconds after which a part is given up, whatever there is left

Found = dict[str, Any]


def run(about: str | None, script: str, parts: Mapping[str, Callable[[argparse.Namespace], Found]], facts: Callable[[str], Found]) -> None:
    """The command line of `script`: runs the parts that are asked for, and prints what they found beside these facts of a device."""
    asked = parser(about)
    asked.add_argument("--minutes", type=float, default=8.8)
    asked.add_argument("--parts", default=",".join(parts))
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--small", action="store_true")
    asked.add_argument("--one", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.one:
        tell(parts[options.one](options))
        return
    until, found = time.monotonic() + 60 * options.minutes, {}
    for name in options.parts.split(","):
        found[name] = apart(script, name, options, until - time.monotonic())
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr, flush=True)
    tell({**facts(options.device), "small": options.small, "parts": found})


def so_far(found: Found) -> Found:
    """What a part has found, told in case that it does not come to its end."""
    tell(found)
    return found


def apart(script: str, name: str, options: argparse.Namespace, left: float) -> Found:
    """A part's figures, or why there are none."""
    if left < 10:
        return {"left_out": "there was no time for it"}
    words = [sys.executable, script, "--one", name, "--device", options.device, *(["--small"] if options.small else [])]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=min(left, ALL), check=False)
    except subprocess.TimeoutExpired as error:
        return {**_last((error.stdout or b"").decode()), "left_out": f"it was not done in {min(left, ALL):.0f} seconds"}
    if done.returncode:
        return {**_last(done.stdout), "failed": (done.stderr.strip().splitlines() or ["without a word"])[-1]}
    return _last(done.stdout)


def _last(told: str) -> Found:
    """The last whole line that a part has told."""
    for line in reversed(told.splitlines()):
        with contextlib.suppress(ValueError, TypeError):
            return dict(json.loads(line))
    return {}
