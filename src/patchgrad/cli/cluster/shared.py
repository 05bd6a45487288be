"""What the verbs below `cluster` share."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from patchgrad.errors import ClusterFault, MissingDependency


def cells(parser: argparse.ArgumentParser) -> None:
    """Declare how many attempts this machine makes at once."""
    parser.add_argument("--cells", type=int, default=os.cpu_count() or 1, help="attempts that it makes at once (default: its cores)")


def job(parser: argparse.ArgumentParser) -> None:
    """Declare what a job is."""
    parser.add_argument("--nodes", type=int, required=True, help="how many machines, the one that trains included")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs of each machine")
    parser.add_argument("--cells", type=int, required=True, help="attempts that each machine makes at once")
    parser.add_argument("words", metavar="RECIPE ...", nargs=argparse.REMAINDER, help="what patchgrad train is given")


def ray(command: Sequence[str]) -> int:
    """Runs a command of Ray's, of the installation that this is; `MissingDependency` without one, `ClusterFault` where it fails."""
    if find_spec("ray") is None:
        raise MissingDependency("a cluster needs Ray on all its machines: pip install 'patchgrad[cluster]'")
    program = Path(sys.executable).with_name(command[0])
    from patchgrad.rollouts.executors.hosts.links import UNWATCHED

    place = {"RAY_AUTH_MODE": "token", **UNWATCHED, **os.environ}  # the secret is asked for, and told, on all machines
    done = subprocess.run([str(program), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=place)
    if done.returncode:
        told = [line for line in done.stdout.splitlines() if line.strip()]
        raise ClusterFault(f"{' '.join(command[:2])} failed: {told[-1].strip() if told else 'it said nothing'}")
    return 0
