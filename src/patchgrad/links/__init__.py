"""Ways to other processes, on this machine and on others."""

from __future__ import annotations

from patchgrad.links.link import BEAT, SILENCE, Beat, Guest, Link, Message, beating, made
from patchgrad.links.notice import Notice

__all__ = ["BEAT", "SILENCE", "Beat", "Guest", "Link", "Message", "Notice", "beating", "made"]
