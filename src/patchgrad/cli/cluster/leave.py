"""take this machine out of its cluster before it ends

Attempts on it go on elsewhere after their last turn, what is being drawn here is drawn elsewhere, and Ray places nothing more here. It
returns when nothing of patchgrad is left, which takes some seconds. Have it run where a machine is told that it will end; then end Ray with
`ray stop`.

  patchgrad cluster leave
  patchgrad cluster leave --why "spot instance" --seconds 20
"""

from __future__ import annotations

import argparse
import sys

from patchgrad.cli.cluster import shared
from patchgrad.errors import ClusterFault, PatchgradError


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--why", default="it was told so", help="what the process that trains is told")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to wait (default: 60)")


def run(arguments: argparse.Namespace) -> int:
    """Give notice, and wait until what is here has gone."""
    from patchgrad.runs import leaving

    nodes = leaving.nodes()
    if not nodes:
        raise ClusterFault("No node of a cluster of Ray runs on this machine for this user, so there is none to leave.")
    leaving.told(nodes, arguments.why)
    for node in nodes:
        try:
            shared.ray(node.drain(arguments.why, arguments.seconds))
        except PatchgradError as error:  # who works here was told already
            print(f"patchgrad: Ray may place something here again: {error}", file=sys.stderr)
    if not leaving.empty(nodes, arguments.seconds):
        raise ClusterFault(
            f"Something of patchgrad is left here after {arguments.seconds:g} s; it goes on elsewhere once this machine ends."
        )
    print("Nothing of patchgrad is left on this machine. End Ray with: ray stop")
    return 0
