"""Contents in which no special token can be found while they pass through a template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

PRIVATE = (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE), *range(0xE000, 0xF900))  # characters that have no meaning


class Guard:
    """Exchanges a character of each special token in a content for one that stands in for it, and says what turns a text back.

    Of `<|im_end|>` the first one is exchanged. So is one at the edge of a content with which a name could end or begin whose other part is
    the template's own text.
    """

    def __init__(self, special: Iterable[str]) -> None:
        self._special = tuple(special)
        self._tails = {name[i:] for name in self._special for i in range(1, len(name))}
        self._heads = {name[:i] for name in self._special for i in range(1, len(name))}
        self._longest = max(map(len, self._special), default=0)

    def hide(self, contents: Sequence[str], template: str) -> tuple[list[str], Mapping[int, str]]:
        """The contents with stand-ins that neither they nor the template have, and a table for `str.translate` that turns them back."""
        places = [set(self._places(content)) for content in contents]
        taken = {content[place] for content, found in zip(contents, places, strict=True) for place in found}
        used = set(template).union(*contents) if taken else set()
        unused = (chr(code) for code in PRIVATE if chr(code) not in used)
        stand_ins = {letter: next(unused) for letter in sorted(taken)}
        hidden = [_exchanged(content, found, stand_ins) for content, found in zip(contents, places, strict=True)]
        return hidden, {ord(stand_in): letter for letter, stand_in in stand_ins.items()}

    def _places(self, content: str) -> Iterator[int]:
        """Where a character of a content could be one of a special token."""
        for name in self._special:
            at = content.find(name)
            while at >= 0:
                yield at
                at = content.find(name, at + 1)
        for start in (0, len(content) - len(content.lstrip())):
            if any(content[start : start + n] in self._tails for n in range(1, self._longest)):
                yield start
        for end in (len(content), len(content.rstrip())):
            if any(content[max(end - n, 0) : end] in self._heads for n in range(1, self._longest)):
                yield end - 1


def _exchanged(content: str, places: set[int], stand_ins: Mapping[str, str]) -> str:
    if not places:
        return content
    letters = list(content)
    for place in places:
        letters[place] = stand_ins[letters[place]]
    return "".join(letters)
