"""What nobody else is to read: texts that match a pattern are replaced, wherever they stand in what is exported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchgrad.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Hidden:
    """Patterns, and what stands in their place.

    >>> Hidden.of(["sk-[a-z]+"]).text("the key is sk-abc")
    'the key is [hidden]'
    """

    patterns: tuple[re.Pattern[str], ...] = ()
    instead: str = "[hidden]"

    @classmethod
    def of(cls, patterns: Sequence[str], instead: str = "[hidden]") -> Hidden:
        """Raises `ConfigError` for what is no regular expression, or matches everywhere."""
        try:
            made = tuple(re.compile(pattern) for pattern in patterns)
        except re.error as error:
            raise ConfigError(f"--hide {error.pattern!r} is no regular expression: {error}.") from error
        for pattern in made:
            if pattern.match(""):
                raise ConfigError(f"--hide {pattern.pattern!r} matches where nothing is: name what is to be hidden.")
        return cls(made, instead)

    def text(self, text: str) -> str:
        """The text without what is hidden."""
        for pattern in self.patterns:
            text = pattern.sub(lambda _: self.instead, text)
        return text

    def everywhere(self, item: Any) -> Any:
        """The same item with each of its texts looked through, keys included."""
        if isinstance(item, str):
            return self.text(item)
        if isinstance(item, dict):
            return {self.everywhere(key): self.everywhere(value) for key, value in item.items()}
        return [self.everywhere(part) for part in item] if isinstance(item, list | tuple) else item
