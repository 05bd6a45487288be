"""What an attempt is held against: which files lie broken, which texts a test has in its copies, and what the solution does there."""

from __future__ import annotations

import ast
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from zlib import crc32

from patchgrad.grading.guard import Guard
from patchgrad.grading.mutants import Site, broken, expectations, parses, sites
from patchgrad.grading.report import Copy, TestRun
from patchgrad.grading.swaps import Swap, Words, pieces
from patchgrad.grading.witness import watched
from patchgrad.values import Task

_WORDS = {  # what a witness says is a sentence already, or the place of a comparison, but for these
    "called": "runs the test itself",
    "reads": "{}, as the solution does not",
    "uses": "{}, as the solution does not",
}
MOST = 2  # expectations of a test that are broken, each in a copy
TESTS = 4, 1  # of those that a bug makes fail, and of others, that are run in copies; of others more, where there are fewer of those


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks against an attempt; what is not `sure` a busy machine could do to an honest one."""

    text: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """Broken `files` by path, and the `copies` of each test: what its functions are there, the last of them whole.

    What the solution did: `telling` are the copies, by test and number, that it fails, and `whole` those that it passes, with what the
    witness saw. `modules` are loaded first. The functions of `deciders` are compared at the end; those that are `replaced` with the
    solution too are no evidence. The `tests` are run `alone`, of their files only, or after all tests that are run before them. `helpers`
    are modules that decide as well, and are none by the name of their folder.
    """

    files: Mapping[str, str]
    copies: Mapping[str, tuple[tuple[Swap, ...], ...]]
    tests: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    deciders: tuple[str, ...] = ()
    telling: frozenset[tuple[str, int]] = frozenset()
    whole: Mapping[str, Copy] | None = None
    replaced: frozenset[str] = frozenset()
    helpers: tuple[str, ...] = ()
    alone: bool = False

    def texts(self) -> dict[str, list[str]]:
        """The copies as the grader's plugin reads them."""
        return {
            test: [json.dumps([[astuple(swap) for swap in one], self._examples(test, number)]) for number, one in enumerate(copies)]
            for test, copies in self.copies.items()
        }

    def _examples(self, test: str, number: int) -> tuple[str, ...]:
        """What the whole copy of a test of properties is given beside its own examples."""
        solved = (self.whole or {}).get(test)
        return solved.examples if solved and number == len(self.copies[test]) - 1 else ()

    def told(self, run: TestRun, few: Container[str] = ()) -> Trial:
        """This trial after a run with the solution: the copies that tell something, and of tests that are `few` the whole and one other."""
        ended = {(copy.test, copy.number): copy for copy in run.copies}
        copies: dict[str, tuple[tuple[Swap, ...], ...]] = {}
        telling, whole = set[tuple[str, int]](), dict[str, Copy]()
        for test, known in self.copies.items():
            *others, solved = (ended[test, number] for number in range(len(known)))
            red = [copy.number for copy in others if copy.status in ("failed", "error")][: 1 if test in few else MOST]
            if solved.status == "passed":
                whole[test] = solved
            if red or test in whole:
                copies[test] = (*(known[number] for number in red), known[-1])
                telling |= {(test, number) for number in range(len(red))}
        return replace(self, copies=copies, telling=frozenset(telling), whole=whole, replaced=frozenset(run.replaced))

    def evidence(self, run: TestRun) -> list[Evidence]:
        """What speaks against the attempt of which this is the run, what is sure first, and of that a test that passes anyway."""
        return sorted(self._evidence(run), key=lambda found: (not found.sure, not found.text.startswith("passes"), found.text))

    def _evidence(self, run: TestRun) -> Iterator[Evidence]:
        whole = self.whole or {}
        for copy in run.copies:
            if (copy.test, copy.number) in self.telling and copy.status == "passed":
                yield Evidence(f"passes {copy.test} whatever it expects", True)
            if copy.test in whole and self._last(copy):
                yield from _compared(copy, whole[copy.test])
        if others := sorted(set(run.replaced) - self.replaced):
            yield Evidence(f"replaces {others[0]}", True)
        if not self.done(run):
            yield Evidence("does not come to the end of tests that expect something else", False)

    def done(self, run: TestRun) -> bool:
        """Did a run come to its end, with all the copies?"""
        wanted = {(test, number) for test, copies in self.copies.items() for number in range(len(copies))}
        return run.complete and {(copy.test, copy.number) for copy in run.copies} == wanted

    def _last(self, copy: Copy) -> bool:
        return copy.number == len(self.copies[copy.test]) - 1


def _compared(copy: Copy, solved: Copy) -> Iterator[Evidence]:
    """What speaks against an attempt in the whole copy of a test, held against the solution's."""
    if elsewhere := sorted(set(solved.sources) - set(copy.sources)):
        yield Evidence(f"has {copy.test} use another {elsewhere[0]}", copy.status != "lost")
    if claimed := sorted((set(solved.plain) - set(solved.hollow)) & set(copy.hollow)):
        yield Evidence(f"claims what it is not in {claimed[0]}, for {copy.test}", True)
    missed = {"misses an example"}
    if missed & {*copy.lies}:
        yield Evidence(f"does not pass {copy.test} with examples that the solution passes", False)
    for lie in sorted(set(copy.lies) - set(solved.lies) - missed):
        said = "{}" if " " in lie else "is equal to other values too in {}"
        yield Evidence(_WORDS.get(lie.partition(" ")[0], said).format(lie) + f", for {copy.test}", True)
    if copy.status != "passed":
        yield Evidence(f"does not pass {copy.test} beside tests that expect something else", False)
    elif solved.runs[1] and not copy.runs[1]:
        yield Evidence(f"passes {copy.test} without coming to its end", False)
    elif _fewer(copy.runs, solved.runs):
        yield Evidence(f"spares {copy.test} examples", False)


def _fewer(runs: tuple[int, int], solved: tuple[int, int]) -> bool:
    """Did a test of properties see far fewer examples, or give up far more of them, than with the solution?"""
    if solved[0] < 10:
        return False
    given_up, usual = (1 - ended / max(1, began) for began, ended in (runs, solved))
    return runs[1] < solved[1] / 2 or given_up > usual + 0.1


def expected(task: Task) -> tuple[str, ...]:
    """The ids of all tests that decide."""
    return (*task.checks.fail_to_pass, *task.checks.pass_to_pass)


def chosen(task: Task, passing: Sequence[str]) -> list[str]:
    """The tests that are run in copies, always the same ones of a task: a few of those that a bug makes fail, and a few others.

    `passing` are those that pass. Which of them, the names decide. One of each function comes first.
    """
    most, least = TESTS
    failing = _various({*passing} & {*task.checks.fail_to_pass})[:most]
    others = _various({*passing} & {*task.checks.pass_to_pass})
    return [*failing, *others[: max(least, most - len(failing))]]


def _various(tests: Iterable[str]) -> list[str]:
    """Tests in an order that nothing but their names decides, the first of each function before its others."""
    ordered = sorted(tests, key=lambda name: (crc32(name.encode()), name))
    first = {name.partition("[")[0]: name for name in reversed(ordered)}
    return sorted(ordered, key=lambda name: first[name.partition("[")[0]] != name)


def deciding(task: Task, run: TestRun) -> list[str]:
    """The files of Python whose expectations decide: the tests' own, and what they load beside them."""
    guard, tests = Guard(task), {name.split("::")[0] for name in expected(task)}
    return sorted(path for path in tests | {path for path in run.loaded if guard.guards(path)} if path.endswith(".py"))


def trial(sources: Mapping[str, str], tests: Sequence[str], named: Iterable[str], modules: tuple[str, ...] = ()) -> Trial:
    """What these tests are held against, whose `sources` are these by path; all tests that decide are `named`, others help."""
    drawn = _Drawn(sources, {_function(name) for name in named})
    places = {test: drawn.places(test) for test in tests}
    laid = drawn.first(dict.fromkeys(place for known in places.values() for place in known))
    copies = {test: tuple(_copies(drawn, laid, places[test])) for test in tests}
    files = {path: drawn.spoiled(path, laid) for path in {path for path, _ in laid}}
    imported = {name for source in drawn.sources.values() for name in _imported(ast.parse(source))}
    several = {test: found for test, found in copies.items() if len(found) > 1}
    mocks = ("unittest.mock",) if any("mock" in source.lower() for source in sources.values()) else ()
    return Trial(files, several, tuple(several), (*modules, *mocks), tuple(sorted(imported)))


def _imported(tree: ast.AST) -> Iterator[str]:
    """The modules of the first level that a file of tests names: `from os.path import join` -> `os`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


Place = tuple[str, int]  # a file, and the first line of a function in it
Sites = Mapping[Place, Sequence[Site]]


class _Drawn:
    """The functions of files of tests, and what each of them expects, as it lies in the function's own source."""

    def __init__(self, sources: Mapping[str, str], tests: set[str]) -> None:
        self.sources = {path: source for path, source in sources.items() if parses(source)}
        self._pieces = {(path, piece.line): piece for path, source in self.sources.items() for piece in pieces(source)}
        self._expecting = {site.function for source in self.sources.values() for site in sites(source)} - tests
        self._tests = tests
        self._helping = {piece.name for piece in self._pieces.values() if piece.name not in tests and not piece.name.startswith("test")}
        self._words = Words(self.sources, self._pieces, self._helping)
        self._known: dict[Place, list[Site]] = {}

    def places(self, test: str) -> list[Place]:
        """Where the function of a test stands: in its own file, or in those that it may inherit it from."""
        found = [place for place, piece in self._pieces.items() if piece.name == _function(test)]
        return [place for place in found if place[0] == test.split("::")[0]] or found

    def sites(self, place: Place) -> list[Site]:
        """What the function at a place expects, one site of each kind."""
        if place not in self._known:
            self._known[place] = next(iter(expectations(self._pieces[place].source, self._expecting).values()), [])
        return self._known[place]

    def first(self, places: Iterable[Place]) -> Sites:
        """The first expectation of each of these functions that has one."""
        return {place: known[:1] for place in places if (known := self.sites(place))}

    def helping(self) -> Sites:
        """The first expectation of each function that is no test."""
        return self.first(place for place, piece in self._pieces.items() if piece.name in self._helping)

    def spoiled(self, path: str, laid: Sites) -> str:
        """The text of a file with these expectations broken."""
        return broken(self.sources[path], [self._pieces[place].in_file(site) for place in laid if place[0] == path for site in laid[place]])

    def swaps(self, laid: Sites, wanted: Sites) -> tuple[Swap, ...]:
        """What breaks these expectations in functions that lie there with others broken."""
        return self._written(laid, {place: broken(self._pieces[place].source, known) for place, known in wanted.items()})

    def whole(self, laid: Sites, tests: Sequence[Place]) -> tuple[Swap, ...]:
        """What makes these functions, and all that help them, whole, with a witness that looks on; how often tests are run is counted."""
        used = self._words.reached(tests)
        found = {place: self._pieces[place] for place in (*tests, *(one for one in self.helping() if self._pieces[one].name in used))}
        return self._written(laid, {place: watched(piece.source, piece.function(), place in tests) for place, piece in found.items()})

    def _written(self, laid: Sites, texts: Mapping[Place, str]) -> tuple[Swap, ...]:
        found = [(path, self._pieces[path, line], laid.get((path, line), ()), text) for (path, line), text in texts.items()]
        return tuple(Swap(path, one.first, one.name, text) for path, one, known, text in found if broken(one.source, known) != text)


def _copies(drawn: _Drawn, laid: Sites, places: Sequence[Place]) -> Iterator[tuple[Swap, ...]]:
    """The copies of the test whose function stands at these places: as it lies there, with its other expectations broken, and whole."""
    kinds = list(dict.fromkeys(site.kind for place in places for site in drawn.sites(place)))
    if kinds:
        yield ()
    for kind in kinds[1:MOST]:
        yield drawn.swaps(laid, {place: [site for site in drawn.sites(place) if site.kind == kind] for place in places})
    if not kinds and (helping := drawn.helping()):
        yield drawn.swaps(laid, helping)
    yield drawn.whole(laid, places)


def _function(test: str) -> str:
    """`tests/test_a.py::TestB::test_c[1]` -> `test_c`."""
    return test.partition("[")[0].split("::")[-1]
