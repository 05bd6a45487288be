"""The text after a tool's name, as words, options and a heredoc, in the shell's own quoting."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from patchgrad.agents.tools.window import Unusable

_CHAIN = re.compile(r"""(?:[^'"\\&]|\\.|'[^']*'|"(?:\\.|[^"\\])*"|&(?!&))*&&""")
_HEREDOC = re.compile(r"<<-?[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[ \t]*\n")


@dataclass(frozen=True, slots=True)
class Arguments:
    """`edit --file a.py 3:5 << 'EOF' ...` has the word `3:5`, the option `file` = `a.py`, and the heredoc as `body`."""

    words: tuple[str, ...]
    options: dict[str, str]
    body: str | None = None


def parse(text: str, options: tuple[str, ...] = (), flags: tuple[str, ...] = (), words: int = 0) -> Arguments:
    """Split the arguments; raises `Unusable` for quotes left open, an option without its value, and too many words.

    A heredoc's body is taken verbatim, up to the line that holds its word alone.
    """
    head, body = _heredoc(text)
    try:
        parts = shlex.split(head)
    except ValueError as error:
        raise Unusable(f"Cannot read the arguments: {str(error).lower()}; a heredoc (<< 'EOF') needs no quoting.") from None
    plain: list[str] = []
    named: dict[str, str] = {}
    literal = False
    while parts:
        part = parts.pop(0)
        name, equals, value = part.removeprefix("--").partition("=")
        if part == "--" and not literal:
            literal = True
        elif literal or not part.startswith("--") or name not in options + flags:
            plain.append(part)  # an unknown option may be text to search for; too many words are told below
        elif name in flags or equals:
            named[name] = value
        elif parts:
            named[name] = parts.pop(0)
        else:
            raise Unusable(f"{part} needs a value.")
    if len(plain) > words:
        raise Unusable(f"Unexpected argument: {plain[words]!r}. A special tool stands alone: no pipes, no second command.")
    return Arguments(tuple(plain), named, body)


def chained(text: str) -> tuple[str, str]:
    """What stands before and after the first `&&` outside quotes; the second is empty where there is none, or more than one line.

    `chained('"a && b" c && pytest || ls')` is `('"a && b" c', 'pytest || ls')`.
    """
    found = _CHAIN.match(text) if "\n" not in text.strip() else None
    return (text[: found.end() - 2].strip(), text[found.end() :].strip()) if found else (text, "")


def number(text: str, what: str = "line number") -> int:
    """`number("12")` is 12; raises `Unusable` for anything but a positive whole number."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise Unusable(f"{text!r} is not a {what}: a whole number from 1 on.")
    return int(text)


def _heredoc(text: str) -> tuple[str, str | None]:
    found = _HEREDOC.search(text)
    if found is None or "\n" in text[: found.start()].strip("\n"):
        return text, None
    body = text[found.end() :]
    end = re.search(rf"^{found['word']}[ \t]*$", body, re.MULTILINE)
    if end is None:
        raise Unusable(f"The heredoc is not closed: a line with {found['word']} alone must end it.")
    if body[end.end() :].strip():
        raise Unusable("Nothing may follow a heredoc's end.")
    return text[: found.start()], body[: end.start()]
