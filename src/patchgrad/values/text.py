"""Text as UTF-8 can hold it, made where it comes in: no file, pipe, socket or tokenizer takes half of a character."""

from __future__ import annotations

import json
import re
from typing import Any

BOM = b"\xef\xbb\xbf"
"""What some editors put before a text in UTF-8; it says nothing."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def parsed(text: bytes) -> Any:
    """What a JSON text in UTF-8 says; `ValueError` where it is none, or holds half of a character.

    `parsed(b'{"a": "caf\\u00e9"}')` is `{"a": "café"}`. `parsed(b'{"a": "caf\\udce9"}')` is refused here, and not by whatever writes it.
    """
    data = loaded(text)
    return whole(data) if _HALF.search(text) else data  # two halves that make one character are whole


def loaded(text: bytes) -> Any:
    """The same for a text of many items, each of which is to be `whole` by itself."""
    try:
        return json.loads(text.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def whole(data: Any) -> Any:
    """The same data; `ValueError` where some text in it has half of a character (a lone surrogate), which UTF-8 cannot hold."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it has {error.object[error.start]!a}, half of a character, which no file can hold") from error
    return data


def well_formed(text: str) -> str:
    """The text without lone surrogates, as `toWellFormed` of JavaScript: `"a\\ud83db"` -> `"a\\ufffdb"`. Two that belong together are
    joined.

    JSON can spell a surrogate, and a path or an argument that is no UTF-8 holds some. No file, socket or tokenizer takes one.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
