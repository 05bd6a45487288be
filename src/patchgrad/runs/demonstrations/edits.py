"""The edits of a scripted demonstrator: the repair of a task's one wrong line, and others that could be one."""

from __future__ import annotations

import io
import random
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from patchgrad.agents.tools.edits import occurrences
from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.runs.demonstrations.known_bugs import EXCHANGES, Known
from patchgrad.tasks.mutations import Mutant, apply, edits

ABSENT = (" <", " >", " <=", " >=", " ==", " !=", " +", " -", " *", " 0", " 1", " 2", " and", " or")
PLACES = 3  # of the same words, beyond which an edit quotes more words instead


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old` by `new`, at the place of this number from the window on.

    `line` is the line that it changes, numbered as a file is shown: `7:    if a < b:`.
    """

    old: str
    new: str
    place: int = 1
    line: str = field(default="", compare=False)

    @property
    def words(self) -> tuple[str, str]:
        return self.old, self.new

    def command(self) -> str:
        words = f"replace {_quoted(self.old)} {_quoted(self.new)}"
        return f"{words} {self.place}" if self.place > 1 else words


def line_edit(source: str, line: int, after: str, window: int = 1) -> Edit:
    """The shortest edit in whole words that turns line number `line` of a file (from 1 on) into `after`.

    `    if value < low:` -> `    if value <= low:` gives `Edit(" < ", " <= ")` where no `<` stands before it in the window, which begins at
    line number `window`, and `Edit(" < ", " <= ", 2)` where one does; behind three it is `Edit(" < low", " <= low")`. A word keeps the
    space in front of it, so that it is spelled in the same tokens as in the file, and the one behind it, so that `+` is not found in `+=`.
    """
    before = source.splitlines()[line - 1]
    at = sum(len(row) for row in source.splitlines(keepends=True)[: line - 1])
    old, new = _spans(before), _spans(after)
    head = _common([before[a:b] for a, b in old], [after[a:b] for a, b in new])
    tail = _common([before[a:b] for a, b in old[head:]][::-1], [after[a:b] for a, b in new[head:]][::-1])
    if head + tail == min(len(old), len(new)):  # nothing goes, or nothing comes: a neighbour has to stand for the place
        head, tail = (head - 1, tail) if head else (head, tail - 1)
    for first in range(head, -1, -1):
        start = old[first][0]
        if start and before[start - 1] != " ":
            continue  # not where a word begins
        lead = min(1, start)
        for rest in range(tail, -1, -1):
            end, ending = old[len(old) - rest - 1][1], new[len(new) - rest - 1][1]
            behind = int(before[end : end + 1] == after[ending : ending + 1] == " ")
            quoted, put = before[start - lead : end + behind], after[new[first][0] - lead : ending + behind]
            places = occurrences(source, quoted, window)[:PLACES]
            if at + start - lead in places:
                return Edit(quoted, put, places.index(at + start - lead) + 1)
    return Edit(before.strip(), after.strip())


@lru_cache(maxsize=4096)
def wrong_edits(source: str, function: str, window: int = 1, families: tuple[str, ...] = EXCHANGES) -> tuple[Edit, ...]:
    """Single-line edits of a function, seen in a window, each of which would undo some bug; one of them may repair it."""
    found = (_edit(source, mutant.line, mutant.after.rstrip("\n"), window) for mutant in _plausible(source, function, families))
    return tuple(dict.fromkeys(found))


def _edit(source: str, line: int, after: str, window: int) -> Edit:
    return replace(line_edit(source, line, after, window), line=f"{line}:{source.splitlines()[line - 1]}")


@lru_cache(maxsize=4096)
def _plausible(source: str, function: str, families: tuple[str, ...]) -> tuple[Mutant, ...]:
    made = (apply(source, edit) for edit in edits(source, families) if edit.function == function)
    return tuple(mutant for mutant in made if mutant is not None and mutant.single_line)


def _spans(line: str) -> list[tuple[int, int]]:
    """Where the tokens of one line of code begin and end; its words where it is no statement of its own, as `elif x:` is not."""
    indent = len(line) - len(line.lstrip())
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(line.strip()).readline) if t.string.strip()]
        return [(indent + t.start[1], indent + t.end[1]) for t in tokens]
    except tokenize.TokenError:
        return [match.span() for match in re.finditer(r"\S+", line)]


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items two sequences have in common from their start on."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


class Edits:
    """What can be edited in one episode: in the file that is known, from the `window` on that was opened last.

    No episode shows the same words at two places: who saw that says what was refused again (docs/studies/climb.md). `again` is the same
    edit a second time, for the sake of what is said then; it is not imitated.
    """

    def __init__(self, known: Known, options: DemonstratorOptions, chance: random.Random) -> None:
        self.window = 1
        self.known, self._options, self._random = known, options, chance
        self._tried: dict[tuple[str, str], Edit] = {}

    @property
    def _repair(self) -> Edit:
        """What repairs it, where the window begins at the line that it does."""
        known = self.known
        return _edit(known.source, known.line, known.fixed, self.window)

    @property
    def _untried(self) -> list[Edit]:
        """What else can be edited there and was not; words that repair it stand for no other place."""
        repair, wrong = self._repair, wrong_edits(self.known.source, self.known.function, self.window, self.known.families)
        return [edit for edit in wrong if edit.words not in self._tried and (edit.words != repair.words or edit == repair)]

    @property
    def exhausted(self) -> bool:
        """Was every wrong edit tried?"""
        return not self._untried

    def next(self) -> Edit:
        """A try: the repair for who has the skill, else one that could be it, or that quotes what the file does not have."""
        absent = [Edit(old, self._repair.new) for old in ABSENT if old not in self.known.source]
        absent = [edit for edit in absent if edit.words not in self._tried]
        if absent and self._random.random() < self._options.misquotes:
            return self._take(absent)
        if self._random.random() < self._options.skill:
            return self._take([self._repair])
        return self.fresh()

    def again(self) -> Edit | None:
        """Now and then an edit that was tried."""
        repeats = self._random.random() < self._options.repeats
        return self._random.choice(list(self._tried.values())) if repeats and self._tried else None

    def fresh(self) -> Edit:
        """A wrong edit that was not tried yet."""
        return self._take(self._untried or [self._repair])

    def _take(self, among: Sequence[Edit]) -> Edit:
        edit = self._random.choice(among)
        self._tried[edit.words] = edit
        return edit
