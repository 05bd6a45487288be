"""A pytest plugin that reports each test's final status on file descriptor 3, in lines that only it can sign.

It is active when `PATCHGRAD_NONCE` is set: the key itself, or the word `stdin` when the standard input holds the key, which, unlike the
environment, no later `/proc/self/environ` shows, and on the next line what is known of the submission, as JSON: the files that it
`touched`, those of them that it `added`, the `places` of tests, `modules` to load before any of it, the `deciders` whose functions are
compared at the end, and the tests that are run in `copies`, whether `alone` or after others (`patchgrad_copies`). Each line of the
report is `MAC JSON`, the MAC being an HMAC-SHA-256 over the JSON, whose `seq` counts up: a line cannot be forged, replayed or left out by
code that does not have the key.

    3f..9a {"seq": 0, "event": "collected", "count": 2, "canaries": 1}
    71..0c {"seq": 1, "event": "test", "id": "tests/test_a.py::test_b", "status": "passed"}
    a5..e1 {"seq": 3, "event": "canary", "id": "tests/test_a.py::test_b_again", "status": "failed"}
    e0..55 {"seq": 4, "event": "finish", "exit": 1, "tests": 2, "changed": [], "evaded": [], "loaded": ["tests/test_a.py"],
             "installed": ["hypothesis"], "replaced": []}

Tests run in the same interpreter as the code under test, which may try to make them pass. Three things stand against that:

* the pieces of pytest that decide an outcome are remembered before any of that code is imported, and `changed` names those that are
  different at the end;
* at the end of a few test modules stands a **canary**, a test that cannot pass: whatever makes tests pass without regard to what they
  find makes it pass too;
* a test that was skipped, or expected to fail, by a file which the submission changes has failed, and `evaded` names the file.

`main` is `python -m pytest` in which nothing that a submission added takes the place of a module that is installed: neither of one that
this file needs, nor of a plugin that the configuration names. PYTEST_DONT_REWRITE: it is loaded before pytest's hook for that.

What they cannot stop is code that walks the interpreter's objects for the key, or that knows canaries from tests.

`PATCHGRAD_ORDER` turns the tests round (1) or shuffles them by that seed, and `PATCHGRAD_CLOCK` moves the time by so many seconds: to
find tests that depend on either.

It must be imported by the process that runs the tests, not before: the key is read, and removed, at import.
"""

from __future__ import annotations

import builtins
import hmac
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import random
import runpy
import sys
import time
import types
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest
from patchgrad_copies import Copies
from patchgrad_functions import Functions
from patchgrad_unhurried import unhurry

Pieces = dict[str, tuple[object, object]]

_HERE = os.getcwd()  # tests may go elsewhere
CANARIES = 3  # modules that have one
_AGAIN = ("again", "twice", "empty", "nested", "default", "other", "single", "repeated", "unchanged", "kept")
_FUNCTION = """def {name}():
    found = {found}
    assert found == {wanted}
"""
_CASE = """class {name}(unittest.TestCase):
    def test_{word}(self):
        self.assertEqual({found}, {wanted})
"""
_EVASIONS = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)
_DECIDED = {"skip", "skipif", "xfail"}
_MODULES = ("runner", "reports", "outcomes", "assertion.rewrite", "raises")
_CLASSES = (
    ("python", "Function"),
    ("reports", "BaseReport"),
    ("reports", "TestReport"),
    ("runner", "CallInfo"),
    ("raises", "RaisesExc"),
    ("unittest", "TestCaseFunction"),
)


def _owners() -> Iterator[Any]:
    yield from (unittest.TestCase, Reporter)
    for path, *names in (*((module,) for module in _MODULES), *_CLASSES):
        try:
            module = import_module("_pytest." + path)
        except ImportError:  # an older pytest has no such module, and then nothing in it to patch
            continue
        yield getattr(module, names[0]) if names else module


def _pieces() -> Iterator[tuple[str, object, object]]:
    for owner in _owners():
        for name, value in list(vars(owner).items()):
            if callable(value) or isinstance(value, classmethod | staticmethod | property):
                inner = getattr(value, "__func__", getattr(value, "fget", None) or value)
                yield f"{owner.__name__}.{name}", value, getattr(inner, "__code__", None)
    yield "builtins.AssertionError", builtins.AssertionError, None


def _remember() -> Pieces:
    return {name: (value, code) for name, value, code in _pieces()}


def _changed(before: Pieces) -> list[str]:
    now = _remember()
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _signer(key: bytes, descriptor: int = 3) -> Callable[[dict[str, Any]], None]:
    """The only holder of the key: a closure over its own `os.write` and digest, taken before any foreign code ran."""
    write, dumps, sign, seq = os.write, json.dumps, hmac.digest, [0]

    def emit(event: dict[str, Any]) -> None:
        text = dumps({"seq": seq[0], **event}).encode()
        seq[0] += 1
        line = sign(key, text, "sha256").hex().encode() + b" " + text + b"\n"
        while line:
            line = line[write(descriptor, line) :]

    return emit


def _canaries(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The id of the last test of a few modules -> what to run after it: a function, and a case of unittest where the module has such."""
    if not hasattr(pytest.Function, "from_parent"):  # pytest before 5.4
        return {}
    last: dict[pytest.Module, pytest.Function] = {}
    cased: set[pytest.Module] = set()
    for item in items:
        module = item.getparent(pytest.Module)
        if module is None or not isinstance(item, pytest.Function) or _DECIDED & {mark.name for mark in module.iter_markers()}:
            continue
        last[module] = item
        if item.cls is not None and issubclass(item.cls, unittest.TestCase):
            cased.add(module)
    chosen = random.SystemRandom().sample(list(last), min(CANARIES, len(last)))
    return {last[module].nodeid: [_function(module, last[module]), *(_case(module) if module in cased else ())] for module in chosen}


def _function(module: pytest.Module, like: pytest.Function) -> pytest.Item:
    name = _free(module, f"{like.originalname}_{_word()}")
    return pytest.Function.from_parent(module, name=name, callobj=_written(_FUNCTION, name, module))


def _case(module: pytest.Module) -> list[pytest.Item]:
    from _pytest.unittest import UnitTestCase  # its place in pytest is private, and no public name leads to it

    name = _free(module, f"Test{_word().capitalize()}{_word().capitalize()}")
    setattr(module.obj, name, _written(_CASE, name, module))
    case = UnitTestCase.from_parent(module, name=name)
    found = [item for item in case.collect() if isinstance(item, pytest.Item)]
    delattr(module.obj, name)
    return found


def _written(template: str, name: str, module: pytest.Module) -> Any:
    found, away = random.SystemRandom().randrange(2, 900), random.SystemRandom().randrange(1, 90)
    space: dict[str, Any] = {"__name__": module.obj.__name__, "unittest": unittest}
    text = template.format(name=name, word=_word(), found=found, wanted=found + away)
    exec(compile(text, module.obj.__file__, "exec"), space)
    return space[name]


def _free(module: pytest.Module, name: str) -> str:
    """A name that the module has not."""
    return _free(module, name + "_" + _word()) if hasattr(module.obj, name) else name


def _word() -> str:
    return random.SystemRandom().choice(_AGAIN)


class Reporter:
    """Collects the phases of one test and emits its final status when pytest is done with it."""

    def __init__(self, emit: Callable[[dict[str, Any]], None], told: Mapping[str, Sequence[str]], copies: Copies) -> None:
        self._emit = emit
        self._told = told
        self._copies = copies
        self._canaries: set[str] = set()
        self._evading: set[str] = set()
        self._evaded: set[str] = set()
        self._status: dict[str, str] = {}
        self._tests = 0
        self._before: tuple[Pieces, Functions] = {}, Functions((), (), copies.remade)
        self._conditions = {name: int(os.environ.pop(f"PATCHGRAD_{name}", "0")) for name in ("ORDER", "CLOCK")}

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        sys.meta_path.sort(key=lambda finder: not isinstance(finder, Placed))  # before the one of pytest that rewrites tests
        self._before = (
            _remember(),
            Functions(self._told["modules"], self._told["deciders"], self._copies.remade),
        )  # plugins are loaded by now, the repository's own code is not
        if self._conditions["CLOCK"]:
            _move_the_clock(self._conditions["CLOCK"])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        unhurry(getattr(item, "obj", None) for item in items)
        if not config.getoption("maxfail"):  # a canary would be the failure at which the run ends
            after = _canaries(items)
            self._canaries = {item.nodeid for found in after.values() for item in found}
            items[:] = list(itertools.chain.from_iterable([item, *after.get(item.nodeid, ())] for item in items))
        order = self._conditions["ORDER"]
        if order == 1:  # backwards, no two tests keep their order
            items.reverse()
        elif order:
            random.Random(order).shuffle(items)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        left = self._copies.left_out([item.nodeid for item in session.items], bool(self._told["alone"]))
        if left:
            session.config.option.tbstyle = "no"  # how a failure is told takes longer than most tests do
        own = [item.nodeid for item in session.items if item.nodeid not in left]
        there = sum(name in self._canaries for name in own)
        self._emit({"event": "collected", "count": len(own) - there, "canaries": there})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.nodeid not in self._copies.left:
            return None
        for event in self._copies(item, lambda: self._alone(item), self._before[1]):
            self._emit(event)
        _pass_by(item, nextitem)
        return True

    def _alone(self, item: pytest.Item) -> str:
        """In a copy of this process: run this test, as ever but for what ends after it, and say how it ended."""
        said: list[dict[str, Any]] = []
        self._emit, self._copies.left = said.append, set()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=_Beside(item))
        return next((event["status"] for event in said if event.get("id") == item.nodeid), "error")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._emit({"event": "uncollected", "id": report.nodeid})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        if call.excinfo is not None and isinstance(call.excinfo.value, _EVASIONS):
            root = getattr(item.config, "rootpath", None) or getattr(item.config, "rootdir")  # noqa: B009  # pytest before 6.1
            way = {os.path.relpath(str(entry.path), str(root)) for entry in call.excinfo.traceback}
            if through := sorted(way.intersection(self._told["touched"])):
                self._evaded.update(through)
                self._evading.add(item.nodeid)
        yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        status = "failed" if report.nodeid in self._evading else _status(report)
        if status == "rerun":
            self._status.pop(report.nodeid, None)
        elif status is not None and self._status.get(report.nodeid) not in ("failed", "error"):
            self._status[report.nodeid] = status

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        canary = nodeid in self._canaries
        self._tests += not canary
        self._emit({"event": "canary" if canary else "test", "id": nodeid, "status": self._status.pop(nodeid, "error")})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        seen = {"changed": _changed(self._before[0]), "evaded": sorted(self._evaded), "loaded": _loaded(_HERE)}
        seen |= {"installed": _installed(), "replaced": self._before[1].replaced()}
        self._emit({"event": "finish", "exit": int(exitstatus), "tests": self._tests, **seen})


def _pass_by(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what was set up and the next test does not need; no public name of pytest does it without a test."""
    ending = item.session._setupstate.teardown_exact
    ending(*(item, nextitem)[-ending.__code__.co_argcount + 1 :])  # before pytest 7 it was told both


class _Beside:
    """A next test in the same class or module: what is set up for all of it stays."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def listchain(self) -> list[Any]:
        """What stays."""
        return self._item.listchain()[:-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._item, name)


def _loaded(folder: str) -> list[str]:
    """The files below a folder that are loaded as modules, relative to it."""
    files = map(_file, list(sys.modules.values()))
    return sorted({os.path.relpath(file, folder) for file in files if file.startswith(folder + os.sep)})


def _file(module: object) -> str:
    return str(vars(module).get("__file__") or "") if isinstance(module, types.ModuleType) else ""


def _installed() -> list[str]:
    """The names of all that is loaded and no part of the repository, packages and modules of the first level."""
    files = [(name.partition(".")[0], _file(module)) for name, module in list(sys.modules.items())]
    own = {name for name, file in files if file.startswith(_HERE + os.sep)}
    return sorted({name for name, _ in files} - own - {name for name, _ in files if name.startswith(("_", "patchgrad_"))})


def _move_the_clock(seconds: int) -> None:
    """Where time-machine is installed: the time of the day, not how fast it goes by."""
    try:
        machine = import_module("time_machine")
    except ImportError:
        return
    machine.travel(time.time() + seconds, tick=True).start()


def _status(report: pytest.TestReport) -> str | None:
    """The status that one phase settles, or None: a passed set-up or tear-down settles nothing."""
    if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # pytest-rerunfailures adds it
        return "rerun"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else None


class Placed(importlib.abc.MetaPathFinder):
    """Finds what is installed, and what the repository has, before a module that was `added`: the rest is found as ever."""

    def __init__(self, folder: str, added: list[str]) -> None:
        self._folder = os.path.join(folder, "")
        self._added = {os.path.join(folder, path) for path in added}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """What is there by this name already, where another one would have been found that was added."""
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or found.origin not in self._added:
            return None
        installed = [entry for entry in sys.path if not os.path.join(os.path.abspath(entry), "").startswith(self._folder)]
        spec = importlib.machinery.PathFinder.find_spec(fullname, installed) if path is None else None
        return spec or self._there(fullname, sys.path if path is None else path)

    def _there(self, fullname: str, entries: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
        """The module or package of this name in these folders that was not added."""
        for entry in entries:
            base = os.path.join(os.path.abspath(entry), fullname.rpartition(".")[2])
            for file, inner in ((os.path.join(base, "__init__.py"), [base]), (base + ".py", None)):
                if file not in self._added and os.path.isfile(file):
                    return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=inner)
        return None


def main() -> None:
    """`python -m pytest` as the command line says, in a process whose path has nothing of the repository yet."""
    if _added:
        sys.meta_path.insert(0, Placed(_HERE, _added))
    sys.path.insert(0, _HERE)
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


def _start() -> tuple[Reporter | None, list[str]]:
    key = os.environ.pop("PATCHGRAD_NONCE", "")
    told: dict[str, Any] = {"touched": [], "added": [], "modules": [], "deciders": [], "places": [], "alone": [], "copies": {}}
    if key == "stdin":
        with open(0, "rb", closefd=False) as given:
            key, *rest = given.read().decode().splitlines()
        told |= json.loads("".join(rest) or "{}")
    copies = Copies(told.pop("copies"), key, told, _HERE)
    return (Reporter(_signer(key.encode()), told, copies) if key else None), told["added"]


_reporter, _added = _start()
if _reporter is not None:
    for _name in dir(_reporter):
        if _name.startswith("pytest_"):
            globals()[_name] = getattr(_reporter, _name)
del _reporter
