"""Text as UTF-8 can hold it, made where it comes in, so that nothing behind that has to ask."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The text without lone surrogates, as `toWellFormed` of JavaScript: `"a\\ud83db"` -> `"a\\ufffdb"`. Two that belong together are
    joined.

    JSON can spell a surrogate, and a path or an argument that is no UTF-8 holds some. No file, socket or tokenizer takes one.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
