"""Attempts on other machines."""

from __future__ import annotations

from patchgrad.rollouts.executors.hosts.links import Hosts, Link

__all__ = ["Hosts", "Link"]
