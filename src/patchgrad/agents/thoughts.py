"""What a model thinks before it speaks: text between a pair of tags whose name says so, as `<think>`, `<thinking>` or `[THINK]`.

A chat template may open the first thought itself, so that an answer holds its end alone.
"""

from __future__ import annotations

import re
from collections.abc import Set

_NAME = r"(?:\w+:)?\w*(?:think|thought|reason)\w*"
_BEGIN = re.compile(rf"\s*([<\[◁])({_NAME})([>\]▷])", re.IGNORECASE)
_END = re.compile(rf"[<\[◁]/{_NAME}[>\]▷]", re.IGNORECASE)
_ORPHAN = re.compile(rf"\s*{_END.pattern}|.*{_END.pattern}(?=\s*$)", re.IGNORECASE)  # at an edge of its line: one in a sentence is a word


def ends(text: str) -> Set[str]:
    """The tags that end a thought in a text: `{"</think>"}`."""
    return {tag.lower() for tag in _END.findall(text)}


def spoken(line: str, until: str, known: Set[str]) -> tuple[str, str, bool]:
    """What of a line is said, the tag for which a thought goes on after it, and whether all until then was thought.

        spoken("<think>Hm", "", ...)               ("", "</think>", False)
        spoken("So. </think>ls", "</think>", ...)  ("ls", "", False)
        spoken("So. </think>", "", ...)            ("", "", True)

    `until` ends the thought in which the line stands, and `known` are the `ends` of the whole text. A thought that none of them ends goes
    on to the end of the answer, but for `[Reasoning]`, which is a heading as well.
    """
    before = False
    while True:
        begin, orphan = _BEGIN.match(line), _ORPHAN.match(line)
        if until:
            end = re.search(re.escape(until), line, re.IGNORECASE)
            if end is None:
                return "", until, before
            line, until = line[end.end() :], ""
        elif begin and (_end_of(begin) in known or begin[1] != "["):
            line, until = line[begin.end() :], _end_of(begin)
        elif orphan:
            line, before = line[orphan.end() :], True
        else:
            return line, "", before


def aloud(text: str) -> str:
    """A text without the thought that it begins with: `aloud("<think>Hm</think>\\n\\nLook.")` is `Look.`"""
    begin = _BEGIN.match(text)
    end = re.search(re.escape(_end_of(begin)), text, re.IGNORECASE) if begin else None
    return text[end.end() :].strip() if end else text


def _end_of(begin: re.Match[str]) -> str:
    return f"{begin[1]}/{begin[2]}{begin[3]}".lower()
