"""Which bugs are tried: every place where one fits and a test runs, in turn from each family, so that no kind of bug fills the set."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from patchgrad.tasks.forge.profile import Profile
from patchgrad.tasks.mutations import FAMILIES, Edit, edits
from patchgrad.tasks.projects.project import Project
from patchgrad.tasks.sources import text_of
from patchgrad.values import digest

SINGLE = ("const_off1", "cmp_boundary", "cmp_negate", "op_swap", "bool_swap", "negate_cond", "swap_args", "return_none", "wrong_name")
Kind = Literal["repair", "pair", "implement"]
SHARES: Mapping[Kind, float] = {"repair": 0.62, "pair": 0.19, "implement": 0.19}
"""How much of a set is of which kind: 50, 15 and 15 parts of the 80 that history does not give."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bug to try: one edit, or two of a pair, each with its file, and the tests that run those lines.

    `alone` are the tests that each part of a pair breaks alone.
    """

    key: str
    edits: tuple[tuple[str, Edit], ...]
    covering: tuple[str, ...]
    alone: tuple[tuple[str, ...], ...] = ()

    @property
    def family(self) -> str:
        """`cmp_boundary`, or `cmp_boundary+swap_args` for a pair."""
        return "+".join(edit.family for _, edit in self.edits)

    @property
    def kind(self) -> Kind:
        """What the agent has to do."""
        return "pair" if len(self.edits) > 1 else "implement" if self.family == "stub_body" else "repair"

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """(file, function) of each edit."""
        return tuple((path, edit.function) for path, edit in self.edits)


class Limits:
    """No function and no family may fill the set; another local name, by far the most frequent candidate, is a tenth of it."""

    def __init__(self, count: int, families: Collection[str], shares: Mapping[Kind, float]) -> None:
        self._count, self._most = count, _wanted(count, families, shares)
        self._singles = max(1, len([family for family in families if family != "stub_body"]))
        self._family = self._share()
        self._wrong_name = max(1, count // 10)
        self._function = max(2, -(-count // 8))
        self._taken: Counter[tuple[str, ...]] = Counter()

    def _share(self) -> int:
        return max(2, -(-2 * self._most.get("repair", 0) // self._singles))

    def fill(self) -> None:
        """Where pairs or missing bodies were too few, repairs take their place."""
        others = sum(self._taken[("kind", kind)] for kind in self._most if kind != "repair")
        if "repair" in self._most:
            self._most["repair"] = self._count - others
            self._family = self._share()

    def wants(self, kind: Kind) -> bool:
        """Are there still too few of this kind?"""
        return self._taken[("kind", kind)] < self._most.get(kind, 0)

    def took(self, candidate: Candidate) -> None:
        """Count it."""
        self._taken[("kind", candidate.kind)] += 1
        self._taken[("family", candidate.family)] += 1
        if candidate.kind != "pair":
            self._taken.update(candidate.places)

    def admit(self, candidate: Candidate) -> bool:
        """May it be tried?"""
        if not self.wants(candidate.kind):
            return False
        if candidate.kind != "pair" and any(self._taken[place] >= self._function for place in candidate.places):
            return False
        most = self._wrong_name if candidate.family == "wrong_name" else self._family
        return candidate.kind != "repair" or self._taken[("family", candidate.family)] < most


def _wanted(count: int, families: Collection[str], shares: Mapping[Kind, float]) -> dict[Kind, int]:
    """How many of each kind, of those that these families can give; a pair needs two repairs to be made of."""
    implement, repair = "stub_body" in families, any(family != "stub_body" for family in families)
    can = {kind: share for kind, share in shares.items() if (implement if kind == "implement" else repair)}
    found = parts(count, can) if can else {}
    if found.get("pair") and found.get("repair", 0) < 2:
        found = parts(count, {kind: share for kind, share in can.items() if kind != "pair"})
    return found


def parts(count: int, shares: Mapping[Kind, float]) -> dict[Kind, int]:
    """A number in whole parts by their shares, the largest remainders first: `parts(10, SHARES)` -> 6 repairs, 2 pairs, 2 to implement."""
    total = sum(shares.values())
    exact = {kind: count * share / total for kind, share in shares.items()}
    found = {kind: int(part) for kind, part in exact.items()}
    for kind in sorted(exact, key=lambda k: found[k] - exact[k])[: count - sum(found.values())]:
        found[kind] += 1
    return found


def single(project: Project, files: Mapping[str, bytes], known: Profile, seed: int, families: Collection[str]) -> Iterator[Candidate]:
    """Covered candidates in turn from each family, those that change one line twice as often."""
    pools: dict[str, list[tuple[str, Edit]]] = {family: [] for family in FAMILIES if family in families}
    for path in sorted(known.cover):
        for edit in edits(text_of(files[path]), families):
            pools[edit.family].append((path, edit))
    for family, pool in pools.items():
        random.Random(f"{seed} {family}").shuffle(pool)
    turns = [f for f in pools if f in SINGLE] + list(pools)
    for family in cycle(turns):
        if not any(pools.values()):
            return
        covered = None
        while pools[family] and covered is None:
            covered = _covered(project, files, known, *pools[family].pop())
        if covered:
            yield covered


def _covered(project: Project, files: Mapping[str, bytes], known: Profile, path: str, edit: Edit) -> Candidate | None:
    data = files[path]
    first, last, top = (data.count(b"\n", 0, offset) + 1 for offset in (edit.start, edit.end, edit.span[0]))
    covering = known.covering(path, first, last, top + 1)
    key = digest(project.id, path, str(edit.start), str(edit.end), edit.text)[:8]
    return Candidate(key, ((path, edit),), tuple(sorted(covering))) if covering else None


def pairs(singles: Mapping[Candidate, tuple[str, ...]], seed: int) -> Iterator[Candidate]:
    """Two bugs at once, of those that made tasks alone, with the tests that each breaks: in different functions, one file's first."""
    bugs = sorted(singles, key=lambda c: c.key)
    found = [(one, other) for i, one in enumerate(bugs) for other in bugs[i + 1 :] if one.places[0] != other.places[0]]
    random.Random(f"{seed} pairs").shuffle(found)
    found.sort(key=lambda pair: pair[0].places[0][0] != pair[1].places[0][0])
    for pair in found:
        one, other = sorted(pair, key=lambda c: (c.edits[0][0], c.edits[0][1].start))
        if one.edits[0][0] == other.edits[0][0] and one.edits[0][1].span[1] > other.edits[0][1].span[0]:
            continue  # a function inside of the other
        covering = tuple(sorted({*one.covering, *other.covering}))
        yield Candidate(digest(one.key, other.key)[:8], (*one.edits, *other.edits), covering, (singles[one], singles[other]))
