"""Messages between trainer, nest and warden: a JSON header and raw bytes, each with its length in front.

JSON and not pickle, because the warden's side of a socket is inside the sandbox: what comes from there is data, never code.
Standard library only: three interpreters import this, two of them without site-packages.
"""

from __future__ import annotations

import json
import struct
from typing import Any

Header = dict[str, Any]
Frame = tuple[Header, bytes]

_SIZES = struct.Struct("<II")
_HEADER_CAP = 64 << 20
_BODY_CAP = 1 << 30


def pack(header: Header, body: bytes = b"") -> bytes:
    """One frame. Text may hold lone surrogates, as paths do; JSON escapes them."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return _SIZES.pack(len(text), len(body)) + text + body


class Reader:
    """Takes bytes as they come, gives frames when they are whole: `feed(b"..") -> [frame, ...]`."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames = []
        while len(self._buffer) >= _SIZES.size:
            head, body = _SIZES.unpack_from(self._buffer)
            if head > _HEADER_CAP or body > _BODY_CAP:
                raise ValueError("a frame is larger than any that is ever sent")
            end = _SIZES.size + head + body
            if len(self._buffer) < end:
                break
            text = bytes(self._buffer[_SIZES.size : _SIZES.size + head])
            frames.append((json.loads(text), bytes(self._buffer[_SIZES.size + head : end])))
            del self._buffer[:end]
        return frames
