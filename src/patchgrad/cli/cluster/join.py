"""join a cluster, to make attempts for it

Replicas of the policy get the GPUs of this machine. Where torchrun starts ranks of the trainer on it, too, say so by --trains. The file
~/.ray/auth_token has to be the one of the cluster's head. Leave it with `patchgrad cluster leave` and `ray stop`.

  patchgrad cluster join 10.0.0.1:6379
  patchgrad cluster join 10.0.0.1:6379 --cells 24
"""

from __future__ import annotations

import argparse

from patchgrad.cli.cluster import shared


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("address", metavar="ADDRESS", help="the head's, as host:port")
    shared.cells(parser)
    parser.add_argument("--trains", action="store_true", help="its GPUs are the trainer's, and no replica gets them")


def run(arguments: argparse.Namespace) -> int:
    """Start Ray here."""
    from patchgrad.runs.launch import start

    shared.ray(start(0, arguments.cells, arguments.address, trains=arguments.trains))
    print(f"This machine has joined {arguments.address} with {arguments.cells} cells.")
    return 0
