"""Messages between trainer, nest and warden: a JSON header and raw bytes, each with its length in front.

Between trainer and nest a long one goes as several frames, so that none is too large and that others have their turn in between:

    {"id": 7, "more": true} + 4 MiB,  {"id": 7, "more": true} + 4 MiB,  {"id": 7, "op": "open", ...} + the rest

JSON and not pickle, because the warden's side of a socket is inside the sandbox: what comes from there is data, never code.
Standard library only: three interpreters import this, two of them without site-packages.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

Header = dict[str, Any]
Frame = tuple[Header, bytes]

_SIZES = struct.Struct("<II")
_HEADER_CAP = 16 << 20
_BODY_CAP = 128 << 20
_PART = 4 << 20


def pack(header: Header, body: bytes | memoryview = b"") -> bytes:
    """One frame. Text may hold lone surrogates, as paths do; JSON escapes them. `ValueError` for one that no reader would take."""
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > _HEADER_CAP or len(body) > _BODY_CAP:
        raise ValueError("a message is larger than any that is ever sent")
    return b"".join((_SIZES.pack(len(text), len(body)), text, body))


def split(header: Header, body: bytes) -> Iterator[bytes]:
    """A message with an `id` as frames of at most 4 MiB; the header travels with the last."""
    rest = memoryview(body)
    while len(rest) > _PART:
        yield pack({"id": header["id"], "more": True}, rest[:_PART])
        rest = rest[_PART:]
    yield pack(header, rest)


class Whole:
    """Puts together what `split` took apart: frames in, messages out, those of other ids in between."""

    def __init__(self) -> None:
        self._parts: dict[int, list[bytes]] = {}

    def feed(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        for header, body in frames:
            if "more" in header:
                self._parts.setdefault(header["id"], []).append(body)
            elif parts := self._parts.pop(header["id"], None):
                yield header, b"".join((*parts, body))
            else:
                yield header, body


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
