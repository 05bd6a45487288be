"""The output format of the paper, section 3.2: free text around exactly one fenced block that starts with ```command."""

from __future__ import annotations

import re

from patchgrad.agents.thoughts import ends, spoken

OPEN = "```command"
CLOSE = "```"

_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1(?=[\s;|&>)]|$)")


def blocks(text: str) -> list[str | None]:
    """The contents of each command block; `None` for one that is never closed.

    A fence inside a heredoc is the heredoc's text, so that a file with fences of its own can be written. A block in a thought is none: a
    model that thinks aloud drafts commands there.

        blocks("why\\n```command\\nls\\n```")                         ["ls"]
        blocks("<think>\\n```command\\nls\\n```\\n</think>\\nDone.")    []
    """
    found: list[str | None] = []
    inside: list[str] | None = None
    until: str | None = None
    thought, known, lines = "", ends(text), _lines(text)
    for number, line in enumerate(lines):
        bare = line.strip()
        if inside is None:
            said, thought, before = spoken(line, thought, known)
            found = [] if before else found
            inside = [] if said.strip() == OPEN else None
        elif until is not None:
            inside.append(line)
            until = None if bare == until else until
        elif bare == CLOSE:
            found.append("\n".join(inside))
            inside = None
        elif bare.lower() in known:  # a thought ended in its draft, and a template had opened it
            found, inside = [], None
        else:
            inside.append(line)
            heredoc = _HEREDOC.search(line)  # which is a shift by a variable where no such line comes
            until = heredoc[2] if heredoc and any(later.strip() == heredoc[2] for later in lines[number + 1 :]) else None
    return found if inside is None else [*found, None]


def _lines(text: str) -> list[str]:
    """Lines without their ends, which are CRLF where all of them are."""
    return text.split("\r\n" if text.count("\r\n") == text.count("\n") else "\n")
