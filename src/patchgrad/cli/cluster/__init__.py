"""join machines to a cluster of Ray, and print jobs for Slurm and Kubernetes and a cluster for `ray up`

Machines that have the resource cells make so many attempts at once. A job gives `patchgrad train` the words after its own options, and
nothing is submitted:

  patchgrad cluster head --cells 24                                on the machine that trains
  patchgrad cluster join 10.0.0.1:6379 --cells 24                  on each other one
  patchgrad cluster leave                                          on one that is about to end
  patchgrad cluster slurm --nodes 16 --cells 24 mine.toml > job.sh
  patchgrad cluster kuberay --nodes 16 --cells 24 --image mine:1 --claim runs mine.toml > job.json
"""

from __future__ import annotations

import argparse

from patchgrad.cli.cluster import head, join, kuberay, leave, slurm, up
from patchgrad.cli.options import declare

VERBS = {"head": head, "join": join, "leave": leave, "slurm": slurm, "kuberay": kuberay, "up": up}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs below this one."""
    declare(parser, VERBS, "cluster_verb", "WHAT")


def run(arguments: argparse.Namespace) -> int:
    """Run the one that was named."""
    code: int = VERBS[arguments.cluster_verb].run(arguments)
    return code
