"""The JSON files of a model's folder, read key by key: each value has its type, or one sentence says which file and key are wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError

LARGE = 1e300  # no number of a config is larger


class Settings:
    """The keys of one object. A key that is null counts as absent; one that is absent has its default, and `ConfigError` without one.

    `Settings({"hidden_size": 64}, "config.json").whole("hidden_size")` -> 64, and `"64"`, `64.0` or `true` in its place is refused.
    """

    def __init__(self, content: Mapping[str, Any], source: str) -> None:
        self.content, self.source = content, source

    @classmethod
    def read(cls, path: Path) -> Settings:
        """What a file holds; `ConfigError` where that is no JSON object."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not valid JSON: copy it again") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{path} is not a JSON object: copy it again")
        return cls(content, str(path))

    def has(self, key: str) -> bool:
        """Is there a value?"""
        return self.content.get(key) is not None

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self._value(key, default)
        return (
            int(value)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0
            else self._wrong(key, "a whole number above 0")
        )

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0, and finite."""
        value = self._value(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and 0 < value < LARGE else self._wrong(key, "a number above 0")

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._value(key, default)
        return value if isinstance(value, bool) else self._wrong(key, "true or false")

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        value = self._value(key, default)
        return value if isinstance(value, str) else self._wrong(key, "a text")

    def part(self, key: str) -> Settings:
        """The object that stands there, an empty one where there is none."""
        value = self._value(key, {})
        return Settings(value, f"{key} of {self.source}") if isinstance(value, dict) else self._wrong(key, "an object")

    def entries(self, key: str) -> list[Any]:
        """A list; what is no list is one of its own, and nothing an empty one: `2` -> `[2]`."""
        value = self._value(key, [])
        return value if isinstance(value, list) else [value]

    def ids(self, key: str) -> tuple[int, ...]:
        """Ids of tokens: one, several, or none."""
        found = self.entries(key)
        are = all(isinstance(number, int) and not isinstance(number, bool) for number in found)
        return tuple(found) if are else self._wrong(key, "the id of a token, or a list of them")

    def _value(self, key: str, default: Any) -> Any:
        value = self.content.get(key)
        if value is None and default is None:
            raise ConfigError(f"{self.source} has no {key}: take the file that belongs to the weights")
        return default if value is None else value

    def _wrong(self, key: str, kind: str) -> Any:
        raise ConfigError(f"{key} in {self.source} is {json.dumps(self.content[key])[:80]}: it must be {kind}")
