"""Texts that lie in the process that runs the tests, and that only its copies read."""

from __future__ import annotations

import base64
import hashlib


def sealed(text: str, key: str, label: str) -> str:
    """A text that only who has the key can read: `opened(sealed(text, key, label), key, label) == text`."""
    return base64.b64encode(_mixed(text.encode(), key, label)).decode()


def opened(text: str, key: str, label: str) -> str:
    """What was `sealed`."""
    return _mixed(base64.b64decode(text), key, label).decode()


def _mixed(content: bytes, key: str, label: str) -> bytes:
    stream = hashlib.shake_256(f"{key} {label}".encode()).digest(len(content))
    return (int.from_bytes(content, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(content), "big")
