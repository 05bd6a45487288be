"""Which cluster a word names; Ray is imported for it, and not before."""

from __future__ import annotations

import os
import secrets
from importlib import import_module

from patchgrad.errors import ConfigError, MissingDependency
from patchgrad.rollouts.executors.hosts.links import Hosts


def local_nodes(cluster: str) -> int:
    """How many nodes a word names that are made on this machine: 3 for `local:3`, 0 for other words; `ConfigError` for `local:x`."""
    kind, _, count = cluster.partition(":")
    if kind != "local":
        return 0
    if not (count.isdecimal() and int(count) > 0):
        raise ConfigError(f"The cluster {cluster!r} is none: say how many nodes, as in local:3")
    return int(count)


def opened(cluster: str, cells: int) -> Hosts:
    """The hosts of a cluster: `auto` for the one that this machine is a part of, its address, or `local:3` for three nodes made here.

    Local nodes share `cells`, and a secret: nobody else on this machine can send them work. Raises `ConfigError` for another word,
    `ClusterFault` where there is no such cluster, `MissingDependency` without Ray.
    """
    count = local_nodes(cluster)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # else Ray ends this process a minute after it has lost the head, whatever that process is at
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "600")
    if count:  # Ray reads both once in a process, so the next cluster has the same secret
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        hosts = import_module("patchgrad.rollouts.executors.hosts.ray_hosts")
    except ImportError as error:
        raise MissingDependency("a cluster needs Ray on all its machines: pip install 'patchgrad[cluster]'") from error
    found: Hosts = hosts.started(count, cells) if count else hosts.joined(cluster)
    return found
