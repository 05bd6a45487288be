"""The entries of a state as bytes, on their way between trainer and nest: a list of what there is, and the contents behind it.

    {"a.py": (0o100644, b"x = 1\\n"), "b.py": (0, None)}  ->  length, [["a.py", 33188, 0, 6], ["b.py", 0, 0, null]], b"x = 1\\n"

A content that several names share is sent once. Standard library only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

_LENGTH = struct.Struct("<I")


def packed(entries: Mapping[str, tuple[int, bytes | None]]) -> bytes:
    """All of them, in the order of their paths."""
    listed: list[tuple[str, int, int, int | None]] = []
    contents: list[bytes] = []
    places: dict[int, int] = {}
    end = 0
    for path, (mode, content) in sorted(entries.items()):
        if content is None:
            listed.append((path, mode, 0, None))
            continue
        if id(content) not in places:
            places[id(content)] = end
            contents.append(content)
            end += len(content)
        listed.append((path, mode, places[id(content)], len(content)))
    text = json.dumps(listed, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *contents))


def unpacked(body: bytes) -> dict[str, tuple[int, bytes | None]]:
    """What `packed` was given; names that shared a content share it again."""
    if not body:
        return {}
    start = _LENGTH.size + _LENGTH.unpack_from(body)[0]
    contents: dict[tuple[int, int], bytes] = {}
    entries: dict[str, tuple[int, bytes | None]] = {}
    for path, mode, at, size in json.loads(body[_LENGTH.size : start]):
        if size is None:
            entries[path] = (mode, None)
        else:
            place = (at, size)
            if place not in contents:
                contents[place] = body[start + at : start + at + size]
            entries[path] = (mode, contents[place])
    return entries
