"""begin a cluster on this machine, which trains

Makes the secret of this user for clusters of Ray, where there is none yet, and starts Ray. The GPUs of this machine are the trainer's, and
replicas of the policy get those of others. End it with `ray stop`.

  patchgrad cluster head
  patchgrad cluster head --cells 24 --port 6379
"""

from __future__ import annotations

import argparse

from patchgrad.cli.cluster import shared


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    shared.cells(parser)
    parser.add_argument("--port", type=int, default=6379, help="where the others join (default: 6379)")


def run(arguments: argparse.Namespace) -> int:
    """Start it, and say how others join."""
    from patchgrad.runs.launch import start

    shared.ray(["ray", "get-auth-token", "--generate"])
    shared.ray(start(arguments.port, arguments.cells, trains=True))
    print(
        f"The cluster has begun, with {arguments.cells} cells here. Copy ~/.ray/auth_token to the other machines, and have them join:\n"
        f"  patchgrad cluster join THIS_MACHINE:{arguments.port}\n"
        "Then train here:\n  patchgrad train RECIPE --cluster auto"
    )
    return 0
