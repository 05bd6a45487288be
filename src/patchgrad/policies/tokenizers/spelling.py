"""Text as ids: a special token by its id where a frame has it, and spelt out in ordinary tokens where content does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer


class Spelling:
    """What a `tokenizers` tokenizer makes of text, and its `special` tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self.special = {token.content: number for number, token in added.items() if token.special}
        self._longest = sorted(self.special, key=len, reverse=True)
        # Content never meets the special tokens; the frame's own are put in by id.
        tokenizer.encode_special_tokens = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy that was pickled: what keeps content from the special tokens is not in the pickle of a `tokenizers` tokenizer."""
        self.__dict__.update(state)
        self._tokenizer.encode_special_tokens = True

    def ordinary(self, text: str) -> list[int]:
        """The ids of a content."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids) if text else []

    def first(self, piece: str) -> int | None:
        """The special token that a piece of a frame begins with."""
        match = re.match("|".join(map(re.escape, self._longest)), piece)
        return None if match is None else self.special[match[0]]

    def join(self, pieces: Sequence[str], contents: Sequence[str]) -> list[int]:
        """Specials of the pieces by id; the text between two of them, content included, as one run of ordinary tokens."""
        pattern = re.compile("(" + "|".join(map(re.escape, self._longest)) + ")")
        tokens: list[int] = []
        run = ""
        for index, piece in enumerate(pieces):
            for place, part in enumerate(pattern.split(piece)):
                if place % 2:
                    tokens += self.ordinary(run)
                    tokens.append(self.special[part])
                    run = ""
                else:
                    run += part
            run += contents[index] if index < len(contents) else ""
        return tokens + self.ordinary(run)
