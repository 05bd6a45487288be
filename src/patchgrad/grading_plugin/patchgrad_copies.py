"""Copies of the process that runs the tests, each of which runs one test whose text is another one there.

What is known of the tests that are run in copies comes with the grader's key, sealed, and is read in the copies alone. A copy is a fork
right before its test: it has the same modules, fixtures and earlier tests as the process itself, nothing has failed in it, and what it
does there is gone with it. The process itself passes the test by. So code under test that would behave otherwise where an expectation
is broken has nothing to tell it by but the expectation.

    {"tests/test_a.py::test_b": [SEALED, SEALED]}   ->   {"event": "copy", "id": "tests/test_a.py::test_b", "number": 0, "status": "failed",
                                                          "lies": [], "runs": [0, 0], ...}

One of the copies of a test is whole: it expects what it should, and a `Witness` looks at what is compared.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import gc
import json
import os
import random
import select
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from marshal import dumps, loads
from typing import Any, NamedTuple, NoReturn

from patchgrad_functions import Functions, Remade
from patchgrad_names import NAME
from patchgrad_sealed import opened
from patchgrad_witness import Witness, Witnesses

_SECONDS = 60.0  # for one copy
_PRYING = {  # audit events of Python: code reaches what calls it, or what it was not given
    *("sys.settrace", "sys.setprofile", "sys._getframe", "sys._current_frames", "gc.get_objects", "gc.get_referrers", "gc.get_referents"),
    *("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.cdata", "ctypes.cdata/buffer", "ctypes.addressof"),
}
_PLAIN = 2  # the format of `marshal` in which equal code has equal bytes, whoever else holds its parts
_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class _Own(NamedTuple):
    """Functions of Python as they are before any code under test is loaded."""

    fork: Callable[[], int]
    wait: Callable[[int, int], tuple[int, int]]
    exit: Callable[[int], NoReturn]
    write: Callable[[int, bytes], int]
    word: Callable[[int], bytes]
    dumps: Callable[[Any], bytes]


class Copies:
    """Runs tests in copies of this process: `copies(item)` says what came of those of a test, and nothing where it has none."""

    def __init__(self, tests: Mapping[str, Sequence[str]], key: str, told: Mapping[str, Sequence[str]], folder: str) -> None:
        self._tests = tests
        self._open: Callable[[str, str], str] = lambda text, label: opened(text, key, label)
        self._witnesses = Witnesses(folder, told)
        self.remade = Remade()
        self._seen = _watching(folder, [os.path.join(folder, path) for path in told["places"]], self.remade) if tests else set()
        self._loaded = _Loaded(folder)
        self.left: set[str] = set()
        self._own = _Own(os.fork, os.waitpid, os._exit, os.write, os.urandom, dumps)

    def left_out(self, tests: Sequence[str], alone: bool) -> set[str]:
        """The tests that the process itself does not run: all, if those that have copies are run `alone`.

        Else those that have copies, those of the same functions, and all behind the last.
        """
        own = {name.partition("[")[0] for name in self._tests}
        places = [number for number, name in enumerate(tests) if name in self._tests]
        if places:
            last = -1 if alone else places[-1]
            self.left = {*(name for name in tests if name.partition("[")[0] in own), *tests[last + 1 :]}
            self._loaded.look()
            self._witnesses.start(self._loaded.every())
        return self.left

    def __call__(self, item: Any, run: Callable[[], str], functions: Functions) -> Iterator[dict[str, Any]]:
        """Runs a test in each of its copies: `run` says there how it ended, and `functions` in the last, the whole, what is another."""
        texts = self._tests.get(item.nodeid, ())
        if texts:
            self._loaded.look()
        for number in random.SystemRandom().sample(range(len(texts)), len(texts)):  # which is whole, none can tell by its place
            text = texts[number]
            inside = partial(self._inside, item, f"{item.nodeid} {number}", text, run, functions, number == len(texts) - 1)
            yield {"event": "copy", "id": item.nodeid, "number": number, **self._copy(inside)}

    def _copy(self, inside: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        sys.stdout.flush()
        sys.stderr.flush()
        reads, writes = os.pipe()
        word = self._own.word(16)
        gc.freeze()  # a collection in the copy would write to all that it shares with this process, which then had to be copied
        child = self._own.fork()
        if not child:
            os.close(reads)
            try:
                text = self._own.dumps(inside())
                self._own.write(writes, word + len(text).to_bytes(4, "big") + text)
            finally:
                self._own.exit(0)
        gc.unfreeze()
        os.close(writes)
        try:
            return _told(reads, word)
        finally:
            os.close(reads)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            self._own.wait(child, 0)

    def _inside(self, item: Any, label: str, text: str, run: Callable[[], str], functions: Functions, whole: bool) -> dict[str, Any]:
        witness = self._witnesses.one(functions, whole)
        swaps, examples = json.loads(self._open(text, label))
        tests = [function for swap in swaps for function in self._swap(item.config, witness, *swap)]
        laid = [function.__code__ for function in tests]
        for function in tests:  # what helpers are made of is settled by now
            witness.names.watch(function)
        before = [dumps(code, _PLAIN) for code in laid]
        status = run()
        runs = [*witness.runs]
        if witness.examples.missed(tests, examples):
            witness.lies.add("misses an example")
        told = witness.examples.told(tests) if whole and not examples else []
        witness.over()
        if before != [dumps(code, _PLAIN) for code in laid]:
            witness.lies.add("changes the test itself")
        seen = witness.lies | self._seen | {f"replaces {name}" for name in (functions.replaced() if whole else ())}
        sides = {name: sorted(places) for name, places in witness.sides.items()}
        return {"status": status, "lies": sorted(seen), "runs": runs, "examples": told, "sources": witness.names.sources(tests), **sides}

    def _swap(self, config: Any, witness: Witness, path: str, first: int, name: str, source: str) -> list[types.FunctionType]:
        """Give the functions of the repository's tests that stand there the code of this source: those that took it."""
        found = []
        for function in self._loaded.at(path, first, name):
            code = _code(source, name, function, function.__code__.co_filename, config)
            if code.co_freevars == function.__code__.co_freevars:  # else it is what a decorator made of it, at the same place
                function.__code__ = code
                self.remade.settle(function)
                function.__globals__[NAME] = witness
                found.append(function)
        return found


class _Loaded:
    """The functions of the repository that are loaded, by where they stand."""

    def __init__(self, folder: str) -> None:
        self._folder, self._modules = folder, 0
        self._found: dict[tuple[str, int, str], list[types.FunctionType]] = {}

    def look(self) -> None:
        """Look for them, if more modules are loaded than before: no copy needs to, which would have to copy what it looks at."""
        if self._modules == len(sys.modules):
            return
        self._found, self._modules = {}, len(sys.modules)
        for function in gc.get_objects():
            if type(function) is types.FunctionType and function.__code__.co_filename.startswith(self._folder):
                code = function.__code__
                self._found.setdefault((code.co_filename, code.co_firstlineno, code.co_name), []).append(function)

    def every(self) -> Iterator[types.FunctionType]:
        """All of them."""
        return (function for found in self._found.values() for function in found)

    def at(self, path: str, first: int, name: str) -> list[types.FunctionType]:
        """Those of this name whose first line this is, of the file at a path below the folder."""
        return self._found.get((os.path.join(self._folder, path), first, name), [])


def _watching(folder: str, places: Sequence[str], remade: Remade) -> set[str]:
    """From here on, what code of the repository that stands outside of these places does and tests would not notice, and what is `remade`.

    It reads a file below them that is no source, `"reads tests/b.txt"`, or looks into the interpreter, `"uses sys.settrace"`.
    """
    found: set[str] = set()
    own, busy = os.path.join(folder, ""), [False]

    def below(path: str) -> bool:
        return any(path == place or path.startswith(place + os.sep) for place in places)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        frame: Any = sys._getframe(2)
        if event != "open":
            if frame.f_code.co_filename.startswith(own) and not below(frame.f_code.co_filename):
                found.add("uses " + event)
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if not below(path) or path.endswith((".py", ".pyc")):
            return
        while frame is not None and not frame.f_code.co_filename.startswith(own):
            frame = frame.f_back
        if frame is not None and not below(frame.f_code.co_filename):
            found.add("reads " + os.path.relpath(path, folder))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        remade.note(event, arguments)
        told = event in _PRYING or (event == "open" and isinstance(arguments[0], (str, bytes)))
        if busy[0] or not (told or (event == "object.__setattr__" and arguments[1] == "__code__")):
            return
        busy[0] = True
        try:
            note(event, arguments)
        finally:
            busy[0] = False

    sys.addaudithook(hook)
    return found


def _told(reads: int, word: bytes) -> dict[str, Any]:
    """What a copy says, or that it was lost. It begins with a word that only the plugin knows, and so does nothing that others write."""
    text, ends, head = b"", time.monotonic() + _SECONDS, len(word) + 4
    while len(text) < head or len(text) < head + int.from_bytes(text[head - 4 : head], "big"):
        ready, _, _ = select.select([reads], [], [], max(0.0, ends - time.monotonic()))
        piece = os.read(reads, 1 << 16) if ready else b""
        text += piece
        if not piece or not text.startswith(word[: len(text)]):
            return {"status": "lost", "lies": [], "runs": [0, 0], "examples": [], "sources": [], "plain": [], "hollow": []}
    found: dict[str, Any] = loads(text[head:])
    return found


def _code(source: str, name: str, like: types.FunctionType, file: str, config: Any) -> types.CodeType:
    """The code of the function of this name, compiled as the one that it takes the place of."""
    tree = ast.parse(source)
    if "@pytest_ar" in like.__globals__:
        from _pytest.assertion.rewrite import rewrite_asserts

        rewrite_asserts(tree, source.encode(), file, config)
    found = _within(compile(tree, file, "exec", like.__code__.co_flags & _FLAGS, dont_inherit=True), name)
    if found is None:
        raise LookupError(name)
    return found


def _within(code: types.CodeType, name: str) -> types.CodeType | None:
    """The code of a function in that of a module, or of a class in it."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    found = [part if part.co_name == name else _within(part, name) for part in inner]
    return next((part for part in found if part is not None), None)
