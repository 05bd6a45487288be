"""Python sources as texts. A byte order mark stays in the text, so that a patch of it fits the file; a parser must not see it."""

from __future__ import annotations

import ast
import re
import warnings

MARK = "\ufeff"


def text_of(content: bytes) -> str:
    """A source's text; nothing for one that is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""


def parsed(text: str) -> ast.Module:
    """Its syntax tree; the columns of its first line count from behind the mark. `SyntaxError` or `ValueError` for no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.removeprefix(MARK))


def barred(content: bytes) -> str:
    """Why a source carries no bugs, in a few words; nothing where it may.

    A patch is UTF-8, so a source in the encoding of a comment such as `# -*- coding: latin-1 -*-` can only be patched where it is both.
    """
    try:
        parsed(content.decode())
    except UnicodeDecodeError:
        return "not UTF-8"
    except (SyntaxError, ValueError, RecursionError):
        return "not Python of this version"
    return "line ends that git does not know" if re.search(rb"\r(?!\n)", content) else ""
