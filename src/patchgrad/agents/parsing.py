"""The output format of the paper, section 3.2: free text around exactly one fenced block that starts with ```command."""

from __future__ import annotations

import re
from collections.abc import Iterator

OPEN = "```command"
CLOSE = "```"

_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1(?=[\s;|&>)]|$)")


def blocks(text: str) -> Iterator[str | None]:
    """The contents of each command block; `None` for one that is never closed.

    A fence inside a heredoc is the heredoc's text, so that a file with fences of its own can be written:

        list(blocks("why\\n```command\\nls\\n```"))    # ["ls"]
    """
    inside: list[str] | None = None
    until: str | None = None
    lines = text.split("\n")
    for number, line in enumerate(lines):
        bare = line.strip()
        if inside is None:
            inside = [] if bare == OPEN else None
        elif until is not None:
            inside.append(line)
            until = None if bare == until else until
        elif bare == CLOSE:
            yield "\n".join(inside)
            inside = None
        else:
            inside.append(line)
            found = _HEREDOC.search(line)  # which is a shift by a variable where no such line comes
            until = found[2] if found and any(later.strip() == found[2] for later in lines[number + 1 :]) else None
    if inside is not None:
        yield None
