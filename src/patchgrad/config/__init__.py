"""TOML <-> the dataclasses themselves: a recipe is a frozen dataclass, and its file is the same value in words.

    dumps(recipe)                          text that `loads` turns back into an equal value
    dumps(recipe, {"rl.turns": "why"})     the same with a comment above a line
    differing(recipe, other)               only the fields that another recipe has otherwise, for `merged` to put onto that one
    loads(Recipe, text)                    missing keys keep their defaults; unknown ones are refused with the nearest valid name
    merged(recipe, table)                  a copy with what a TOML table sets
    override(recipe, {"rl.turns": "12"})   what `--rl.turns 12` on a command line does

A field is a bool, int, float, str, `Literal`, a tuple of those, a dataclass, a tuple of dataclasses, or any of them `| None`.
`None` is written `"none"`, because TOML has no word for it. An `Inline` is a dataclass that is written as one value. What a value may be
beyond its type is the recipe's own business: it raises `ConfigError` in `__post_init__`.
"""

from patchgrad.config.checks import require, within
from patchgrad.config.kinds import NONE, Inline
from patchgrad.config.overriding import override
from patchgrad.config.reading import loads, merged, of_table, parsed
from patchgrad.config.renaming import flat, nested, renamed
from patchgrad.config.writing import differing, dumps, leaves, written

__all__ = [
    "NONE",
    "Inline",
    "differing",
    "dumps",
    "flat",
    "leaves",
    "loads",
    "merged",
    "nested",
    "of_table",
    "override",
    "parsed",
    "renamed",
    "require",
    "within",
    "written",
]
