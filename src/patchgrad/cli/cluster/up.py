"""print a cluster for `ray up`: machines of a cloud, or of a list

--provider, --head and --host are what Ray's launcher takes of the provider and of its nodes, as JSON. The head trains, and each other
machine makes attempts. The secret in ~/.ray/auth_token is copied to all of them.

  patchgrad cluster up --nodes 5 --cells 24 --provider '{"type": "aws", "region": "eu-west-1"}' \\
    --head '{"InstanceType": "g6.4xlarge"}' --host '{"InstanceType": "c7i.8xlarge"}' \\
    --setup "pip install 'patchgrad[train,cluster]'" mine.toml > cluster.json
  patchgrad cluster up --nodes 3 --cells 24 --provider '{"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2", "10.0.0.3"]}' \\
    mine.toml > cluster.json
  ray up cluster.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import Any

from patchgrad.cli.cluster import shared
from patchgrad.errors import ConfigError


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--provider", required=True, metavar="JSON", help="whose machines they are: its type, and what else it needs")
    parser.add_argument("--head", default="{}", metavar="JSON", help="the node of the head, as the provider describes one")
    parser.add_argument("--host", default="{}", metavar="JSON", help="the node of each other machine")
    parser.add_argument("--user", default="ubuntu", help="whom ssh logs in as (default: ubuntu)")
    parser.add_argument("--setup", action="append", default=[], metavar="COMMAND", help="what installs patchgrad there; may be given often")
    shared.job(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it, and tell how to start the run there."""
    from patchgrad.runs.launch import Job, Machines, up

    job = Job(tuple(arguments.words), arguments.nodes, arguments.cells, arguments.gpus)
    provider, head, host = (_object(arguments, name) for name in ("provider", "head", "host"))
    print(up(job, Machines(provider, head, host, arguments.user, tuple(arguments.setup))), end="")
    train = shlex.join([*job.train, "--cluster", "auto"])
    print(f"Start it with: ray up FILE; then: ray exec FILE --tmux {shlex.quote(train)}", file=sys.stderr)
    return 0


def _object(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    given = getattr(arguments, name)
    try:
        found = json.loads(given)
    except ValueError as error:
        raise ConfigError(f"--{name} is no JSON ({error}): {given}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"--{name} is {given}, and it has to be an object of JSON.")
    return found
