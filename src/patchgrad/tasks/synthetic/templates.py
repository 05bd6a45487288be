"""What synthetic repositories are built from: small functions with a docstring that says what they should do.

A template is a function in plain Python whose `def` line ends in a comment naming a value generator per parameter:

    def clamp(value, low, high):  # int int5 int9

`TEMPLATES` holds the hand-written ones of `numbers.py`, `lists.py` and `text.py`, a composed family (reduce x condition, such as
`sum_at_least`) and improvised ones. Every third hand-written template is held out; the others only train, as they share lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from patchgrad.tasks.synthetic.improvised import improvised
from patchgrad.tasks.synthetic.lists import LISTS
from patchgrad.tasks.synthetic.numbers import NUMBERS
from patchgrad.tasks.synthetic.text import TEXT
from patchgrad.values import digest

IMPROVISED = 1000
WORDS = ("apple", "level", "stone", "river", "noon", "cloud", "ox", "radar", "tiger", "xylo", "bee", "moon", "kayak", "plane")
NAMES = ("ann", "bob", "cat", "dan", "eve")


@dataclass(frozen=True, slots=True)
class Template:
    """`source` is the function's text without the generator comment; `arguments` names one generator a parameter."""

    name: str
    source: str
    arguments: tuple[str, ...]
    held_out: bool

    @property
    def told(self) -> bool:
        """Does a docstring say what the function does? Improvised ones have none: only tests know."""
        return '"""' in self.source

    def case(self, random_: random.Random) -> tuple[Any, ...]:
        """One tuple of arguments: for `clamp`, say, `(4, 2, 9)`."""
        return tuple(GENERATORS[name](random_) for name in self.arguments)


def _ints(low: int, high: int, shortest: int, longest: int) -> Callable[[random.Random], Any]:
    return lambda r: [r.randint(low, high) for _ in range(r.randint(shortest, longest))]


def _int(low: int, high: int) -> Callable[[random.Random], Any]:
    return lambda r: r.randint(low, high)


def _line(shortest: int, longest: int) -> Callable[[random.Random], Any]:
    return lambda r: " ".join(r.choice(WORDS) for _ in range(r.randint(shortest, longest)))


def _letters(alphabet: str, shortest: int, longest: int) -> Callable[[random.Random], Any]:
    return lambda r: "".join(r.choice(alphabet) for _ in range(r.randint(shortest, longest)))


def _counts(low: int, high: int) -> Callable[[random.Random], Any]:
    return lambda r: {name: r.randint(low, high) for name in r.sample(NAMES, r.randint(1, 3))}


GENERATORS: dict[str, Callable[[random.Random], Any]] = {
    "int": _int(0, 12),
    "int3": _int(0, 3),
    "int5": _int(0, 5),
    "int6": _int(0, 6),
    "int9": _int(3, 9),
    "int30": lambda r: r.choice((r.randint(0, 30), 6, 10, 17, 18, 19)),
    "int99": lambda r: r.choice((r.randint(0, 99), 40, 41, 49, 50, 65, 70, 90)),
    "sint": lambda r: r.choice((r.randint(-9, 9), 0, 1, -1, 100)),
    "bit": _int(0, 1),
    "bool": lambda r: r.random() < 0.5,
    "pos": _int(1, 9),
    "big": lambda r: r.choice((r.randint(0, 250), r.randint(0, 20), 10, 60, 100)),
    "year": lambda r: r.choice((1900, 2000, 2023, 2024, 2100, r.randint(1990, 2030))),
    "ints": _ints(0, 9, 0, 5),
    "ints1": _ints(0, 9, 1, 5),
    "ints2": _ints(0, 9, 2, 5),
    "ints4": _ints(0, 5, 3, 3),
    "pints4": _ints(1, 4, 3, 3),
    "sints": _ints(-5, 5, 0, 5),
    "bits": _ints(0, 1, 2, 6),
    "sorted": lambda r: sorted(r.randint(0, 9) for _ in range(r.randint(1, 4))),
    "word": lambda r: r.choice(WORDS),
    "words": lambda r: [r.choice(WORDS) for _ in range(r.randint(1, 3))],
    "line": _line(1, 3),
    "line2": lambda r: " ".join(r.choice(WORDS[:3]) for _ in range(r.randint(1, 3))),
    "word3": lambda r: r.choice(WORDS[:3]),
    "sep": lambda r: r.choice((",", "-", "")),
    "pal": lambda r: r.choice((*WORDS, "abba", "abca", "a")),
    "runs": _letters("ab", 1, 5),
    "pre": lambda r: "stone"[: r.randint(0, 5)] + _letters("xy", 0, 2)(r),
    "bstr": _letters("01", 4, 4),
    "camel": lambda r: r.choice(WORDS) + r.choice(("", "Name", "Id", "AtEnd")),
    "alnum": _letters("ab07", 1, 9),
    "pairs": lambda r: ",".join(f"{n}={r.randint(0, 9)}" for n in r.sample(NAMES, r.randint(1, 3))),
    "parens": lambda r: r.choice(("", "()", "(())", "()()", "(()())", "((()))", "a(b)")),
    "countmap": _counts(0, 9),
    "pricemap": _counts(1, 5),
}


def _read(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    found = []
    for block in re.split(r"\n(?=def )", text.strip()):
        head, _, body = block.partition("\n")
        signature, _, generators = head.partition("  # ")
        name = signature[4 : signature.index("(")]
        found.append((name, f"{signature}\n{body.rstrip()}\n", tuple(generators.split())))
    return found


CONDITIONS = {
    "above": ("greater than", "item > limit"),
    "at_least": ("at least", "item >= limit"),
    "below": ("less than", "item < limit"),
    "at_most": ("at most", "item <= limit"),
    "equal_to": ("equal to", "item == limit"),
    "unlike": ("different from", "item != limit"),
}
REDUCTIONS = {
    "sum": ("Add up the items", "total = 0", "total += item", "total"),
    "count": ("Count the items", "count = 0", "count += 1", "count"),
    "product": ("Multiply the items", "result = 1", "result *= item", "result"),
    "keep": ("List the items", "kept = []", "kept.append(item)", "kept"),
    "drop_sum": ("Ten minus all items", "rest = 10", "rest -= item", "rest"),
    "double_sum": ("Add up twice the items", "total = 0", "total += item * 2", "total"),
}


def _composed() -> list[tuple[str, str, tuple[str, ...]]]:
    found: list[tuple[str, str, tuple[str, ...]]] = []
    for reduction, (words, start, step, result) in REDUCTIONS.items():
        for condition, (phrase, test) in CONDITIONS.items():
            name = f"{reduction}_{condition}"
            source = (
                f'def {name}(items, limit):\n    """{words} {phrase} limit."""\n    {start}\n'
                f"    for item in items:\n        if {test}:\n            {step}\n    return {result}\n"
            )
            found.append((name, source, ("ints", "int5")))
    return found


def _templates() -> tuple[Template, ...]:
    written = [item for text in (NUMBERS, LISTS, TEXT) for item in _read(text)]
    order = sorted(range(len(written)), key=lambda i: digest("workshop split", written[i][0]))
    held_out = {written[i][0] for i in order[: len(written) // 3]}
    by_hand = [Template(name, source, arguments, name in held_out) for name, source, arguments in written]
    made = [*_composed(), *improvised(IMPROVISED)]
    return (*by_hand, *(Template(name, source, arguments, False) for name, source, arguments in made))


TEMPLATES = _templates()
