"""Functions composed by a seeded grammar: they train the habit of reading code, because no two share more than single lines.

A handful of templates is learned by heart. With hundreds of shapes, copying what stands in the file is the easier way to write an edit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

VERBS = [
    "mix",
    "rate",
    "scan",
    "fold",
    "weigh",
    "trim",
    "score",
    "join",
    "shift",
    "probe",
    "blend",
    "count",
    "rank",
    "tune",
    "sum",
    "step",
    "pick",
    "drop",
    "cut",
    "stack",
    "grow",
    "bend",
    "pack",
    "sift",
    "draw",
    "lift",
    "turn",
    "mark",
    "pair",
    "span",
    "melt",
    "round",
]
NOUNS = [
    "rows",
    "load",
    "marks",
    "units",
    "steps",
    "gaps",
    "costs",
    "ends",
    "parts",
    "hours",
    "bins",
    "peaks",
    "votes",
    "turns",
    "lots",
    "keys",
    "cards",
    "beds",
    "seats",
    "pages",
    "tanks",
    "pipes",
    "rings",
    "cells",
    "nets",
    "logs",
    "bags",
    "poles",
    "drums",
    "wires",
    "knots",
    "bolts",
]
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def improvised(count: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """`count` functions as (name, source, argument generators), each of another name; the same count gives the same functions."""
    random_ = random.Random("improvised functions")
    names = [f"{verb}_{noun}" for verb in VERBS for noun in NOUNS]
    random_.shuffle(names)
    return [_function(name, random_) for name in names[:count]]


def _function(name: str, random_: random.Random) -> tuple[str, str, tuple[str, ...]]:
    kind = random_.random()
    parameters, generators = ("a, b, c", ("int", "int5", "int9")) if 0.55 <= kind < 0.85 else ("items, limit", ("ints", "int5"))
    body = _loop(random_) if kind < 0.55 else _formula(random_) if kind < 0.85 else _question(random_)
    lines = "".join(f"    {line}\n" for line in body)
    return name, f"def {name}({parameters}):\n{lines}", generators


def _loop(random_: random.Random) -> list[str]:

    def choose(options: Sequence[str]) -> str:
        return random_.choice(options)

    def number() -> str:
        return str(random_.randint(1, 9))

    start = choose(("0", "1", number(), "len(items)", "limit"))
    over = choose(("item in items", "item in items[1:]", "item in items[:-1]", "item in range(limit)", "i, item in enumerate(items)"))
    parts = (f"item % {choose('23')}", f"item * {choose('23')}", f"total // {choose('23')}")
    left = choose(("item", "item + total", *parts, "item - limit"))
    right = choose(("limit", number(), f"limit + {number()}", f"limit - {number()}", f"limit * {choose('23')}"))
    glue = choose(("", "", f" and total {choose('<>')} {number()}", f" or item {choose(COMPARISONS)} {number()}"))
    step = choose(
        (
            "item",
            number(),
            f"item * {number()}",
            f"item + {number()}",
            f"item // {choose('23')}",
            f"item % {choose('345')}",
            "limit",
            f"item - {number()}",
            "i" if "enumerate" in over else "item",
        )
    )
    body = [
        f"total = {start}",
        f"for {over}:",
        f"    if {left} {choose(COMPARISONS)} {right}{glue}:",
        f"        total {choose('+-')}= {step}",
    ]
    ending = random_.random()
    if ending < 0.3:
        body += ["    else:", f"        total {choose('+-')}= {number()}"]
    elif ending < 0.5:
        body += [f"    if total {choose('><')} {random_.randint(8, 20)}:", "        break"]
    if random_.random() < 0.4:
        body += [
            f"if total {choose(COMPARISONS)} {choose(('limit', number(), 'len(items)'))}:",
            f"    return {choose(('limit', number(), '0', 'total + limit'))}",
        ]
    last = ("total", "total", f"total + {number()}", "total - limit", f"max(total, {number()})", "total * 2", f"total / {choose('24')}")
    return [*body, f"return {choose(last)}"]


def _formula(random_: random.Random) -> list[str]:

    def choose(options: Sequence[str]) -> str:
        return random_.choice(options)

    def number() -> str:
        return str(random_.randint(1, 9))

    def term() -> str:
        sums = ("a", "b", "c", f"a + {number()}", f"b * {number()}", "a - b", "a + c", "b + c", f"max(a, {number()})")
        return choose((*sums, f"c // {choose('23')}", f"a % {choose('345')}", f"c / {choose('24')}"))

    body = [f"x = {term()}"]
    if random_.random() < 0.6:
        body.append(f"y = {choose(('x', 'a', 'b'))} {choose('+-*')} {choose(('c', 'b', number()))}")
    last = "y" if len(body) == 2 else "x"
    glue = choose(("", f" and {choose('abc')} {choose('<>')} {number()}", f" or {choose('abc')} {choose('<>')} {number()}"))
    body += [f"if {last} {choose(COMPARISONS)} {term()}{glue}:", f"    return {choose((last, 'a', f'{last} + {number()}', number()))}"]
    if random_.random() < 0.4:
        body += [
            f"if {choose('abc')} {choose(COMPARISONS)} {number()}:",
            f"    {last} {choose('+-*')}= {choose(('2', 'a', 'b', number()))}",
        ]
    return [*body, f"return {choose((last, f'{last} - {choose(chr(97) + chr(98))}', f'{last} * {number()}', f'min({last}, c)'))}"]


def _question(random_: random.Random) -> list[str]:
    """Whether some item, or each, is as asked: the answers are truth values."""

    def choose(options: Sequence[str]) -> str:
        return random_.choice(options)

    number = str(random_.randint(1, 9))
    left = choose(
        ("item", f"item + {number}", f"item % {choose('23')}", f"item * {choose('23')}", f"item // {choose('23')}", "item - limit")
    )
    test = f"{left} {choose(COMPARISONS)} {choose(('limit', number, f'limit - {number}', 'len(items)'))}"
    glue = choose(("", f" and item {choose(COMPARISONS)} {number}", f" or limit {choose(COMPARISONS)} {number}"))
    found, other = random_.choice((("True", "False"), ("False", "True")))
    if random_.random() < 0.5:
        body = [f"found = {other}", "for item in items:", f"    if {test}{glue}:", f"        found = {found}", "return found"]
    else:
        body = ["for item in items:", f"    if {test}{glue}:", f"        return {found}", f"return {other}"]
    if random_.random() < 0.4:
        early = f"if len(items) {choose(COMPARISONS)} {choose(('limit', '1', '2'))}:"
        body = [early, f"    return limit {choose(COMPARISONS)} {number}", *body]
    return body
