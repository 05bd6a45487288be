"""Attempts on other machines."""

from __future__ import annotations

from patchgrad.rollouts.executors.hosts.links import HostLink, Hosts

__all__ = ["Hosts", "HostLink"]
