"""Text as ids: a special token by its id where a template writes it, and spelt out in ordinary tokens where content does."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer


class Spelling:
    """What a `tokenizers` tokenizer makes of text, and its `special` tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = {token.content: token for token in added.values() if token.special}
        self.special = {token.content: number for number, token in added.items() if token.special}
        self.single_words = [name for name, token in self._added.items() if token.single_word]
        self._pattern = re.compile("|".join(map(re.escape, sorted(self.special, key=len, reverse=True))) or r"(?!)")
        # Content never meets the special tokens; the template's own are put in by id.
        tokenizer.encode_special_tokens = True
        # A length that was saved with the tokenizer is for batches: it would cut or fill every run.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._later = _behind_others(tokenizer)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy that was pickled: what keeps content from the special tokens is not in the pickle of a `tokenizers` tokenizer."""
        self.__dict__.update(state)
        self._tokenizer.encode_special_tokens = self._later.encode_special_tokens = True

    def ordinary(self, text: str, *, first: bool = False) -> list[int]:
        """The ids of a content, of one that is the `first` of a stream where it is."""
        return list((self._tokenizer if first else self._later).encode(text, add_special_tokens=False).ids) if text else []

    def first(self, text: str) -> int | None:
        """The special token that a text begins with."""
        match = self._pattern.match(text)
        return None if match is None else self.special[match[0]]

    def join(self, text: str, back: Mapping[int, str], *, first: bool) -> list[int]:
        """Specials of a text by id; what lies between two of them as one run of ordinary tokens, turned `back`.

        `first` says whether the text begins a stream. A special token that takes the blanks beside it, takes them.
        """
        tokens: list[int] = []
        done, blank = 0, False
        for match in [*self._pattern.finditer(text), None]:
            run = text[done:] if match is None else text[done : match.start()]
            own = None if match is None else self._added[match[0]]
            run = run.lstrip() if blank else run
            run = run.rstrip() if own and own.lstrip else run
            tokens += self.ordinary(run.translate(back), first=first and not done)
            if match is not None and own is not None:
                tokens.append(self.special[match[0]])
                done, blank = match.end(), own.rstrip
        return tokens

    def whole(self, text: str) -> list[int]:
        """The ids of a text as the tokenizer itself reads it, special tokens included."""
        self._tokenizer.encode_special_tokens = False
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self._tokenizer.encode_special_tokens = True


def _behind_others(tokenizer: Tokenizer) -> Tokenizer:
    """What reads a run that does not begin the stream: the tokenizer itself, unless it marks the first word of a text alone.

    Sentencepiece writes a blank before the first word. With `prepend_scheme` `first` it does so only where the whole text begins.
    """
    if b'"prepend_scheme":"first"' not in pickle.dumps(tokenizer.pre_tokenizer):  # which is quick, unlike the whole with its vocabulary
        return tokenizer
    whole = json.loads(tokenizer.to_str())
    whole["pre_tokenizer"] = _unmarked(whole["pre_tokenizer"])
    later = Tokenizer.from_str(json.dumps(whole))
    later.encode_special_tokens = True
    return later


def _unmarked(part: Any) -> Any:
    if isinstance(part, list):
        return [_unmarked(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {key: "never" if key == "prepend_scheme" and value == "first" else _unmarked(value) for key, value in part.items()}
