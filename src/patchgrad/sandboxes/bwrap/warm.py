"""Pytest from a fork of an interpreter that has it loaded: the same verdicts as a cold start at a fraction of the time.

What is done before the fork is what does not depend on the call: imports, and the registration of pytest's own plugins. Everything
that could make a cold start differ is either set up again in the child (arguments, path, environment, descriptors, limits, mask,
random state) or refused with `Cold`, and the caller starts cold: other PYTHON* or locale variables, ignored signals, a file in the
working folder that a cold interpreter might have imported in the place of a module that is loaded here.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import os
import resource
import signal
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from patchgrad.sandboxes.linux import system

_BIN = "/opt/python/bin"
_GRADING = "from patchgrad_report import main; main()"  # how the grader's code ends: see `grading/grade.py`
_NAMES = ("pytest", "py.test")
_PYTHONS = ("python", "python3")
_LIMITS = {
    "Max cpu time": resource.RLIMIT_CPU,
    "Max file size": resource.RLIMIT_FSIZE,
    "Max stack size": resource.RLIMIT_STACK,
    "Max core file size": resource.RLIMIT_CORE,
    "Max processes": resource.RLIMIT_NPROC,
    "Max open files": resource.RLIMIT_NOFILE,
    "Max pending signals": resource.RLIMIT_SIGPENDING,
    "Max address space": resource.RLIMIT_AS,
}

_SIGNALS = (1 << 31) - 1  # not the two above them, which libc keeps for itself

Bounds = Mapping[int, tuple[int, int]]


class Cold(Exception):
    """This call needs a cold start."""


class _Call(NamedTuple):
    """A call of pytest: `sys.argv`, the first entry of `sys.path`, and the code that calls it where it is not called itself."""

    program: str
    path: str
    arguments: Sequence[str]
    code: str = ""


class FixtureNames:
    """Stands in for `dir` where pytest looks through its own plugins for fixtures, half the work of a small run.

    For a module or class of pytest itself the answer never changes, so it is the fixtures alone, found once; for all others
    it is `dir`.
    """

    def __init__(self) -> None:
        self._known: dict[object, list[str]] = {}

    def __call__(self, holder: object) -> list[str]:
        key = holder if isinstance(holder, types.ModuleType | type) else type(holder)
        names = self._known.get(key)
        if names is None:
            names = dir(holder)
            home = key.__name__ if isinstance(key, types.ModuleType) else key.__module__
            if home.startswith("_pytest."):
                from _pytest.fixtures import FixtureFunctionDefinition

                names = [name for name in names if type(getattr(key, name, None)) is FixtureFunctionDefinition]
                self._known[key] = names
        return names


class Pytest:
    """The warm interpreter. It is cold at first, so that a cell answers at once, and warm from the first call on, which takes as long as a
    cold one does. Where pytest is not what this module knows, or is another one (`usable`), every call is cold.
    """

    def __init__(self, usable: bool = True) -> None:
        self._own = dict(os.environ)
        self._ready: bool | None = None if usable else False
        self._loaded: set[str] = set()
        self._only_ours: set[str] = set()

    def ready(self) -> bool:
        """Warm it up, once; is it of use?"""
        if self._ready is None:
            before = set(sys.modules)
            self._ready = self._warm_up()
            self._loaded = {name.partition(".")[0] for name in sys.modules}
            self._only_ours = {name for name in before if name.startswith("patchgrad") or name == "ctypes" or name == "_ctypes"}
            gc.collect()
            gc.freeze()
        return self._ready

    def _warm_up(self) -> bool:
        """Runs a throw-away test, so that what pytest loads late is loaded, and prepares the configuration that a fork starts from."""
        import _pytest.config
        import _pytest.fixtures
        import pytest

        _pytest.fixtures.dir = FixtureNames()  # type: ignore[attr-defined]
        folder, path = "/run/cell/lib/warm", list(sys.path)
        quiet = ("-p", "no:cacheprovider")  # /tmp is the agent's: nothing is left there
        arguments = ["-c", os.devnull, "--rootdir", folder, *quiet, folder]
        done = pytest.main(arguments) == pytest.ExitCode.TESTS_FAILED
        sys.stdout.flush()
        for name in [name for name in sys.modules if name.startswith(("test_patchgrad_warm", "conftest"))]:
            del sys.modules[name]
        self._config = _pytest.config.get_config()
        sys.path[:] = path
        sys.path_importer_cache.clear()
        return done

    # --- which calls are warm ---

    def fork_for(self, pid: int, handle: int) -> int:
        """A child that stands in for the script with this process id: its arguments, folder, environment and descriptors."""
        argv = _read(pid, "cmdline").split(b"\0")[1:-1]
        environment = dict(pair.split(b"=", 1) for pair in _read(pid, "environ").split(b"\0") if b"=" in pair)
        status = dict(line.split(b":", 1) for line in _read(pid, "status").splitlines() if b":" in line)
        if int(status[b"SigIgn"], 16) & _SIGNALS or int(status[b"SigBlk"], 16) & _SIGNALS:
            raise Cold
        mask = int(status[b"Umask"], 8)
        numbers = [int(name) for name in os.listdir(f"/proc/{pid}/fd") if 2 < int(name) < 10]
        directory = os.readlink(f"/proc/{pid}/cwd")
        given = {number - 7 if number > 6 else number: system.descriptor_of(handle, number) for number in numbers}
        try:
            text = {os.fsdecode(key): os.fsdecode(value) for key, value in environment.items()}
            return self.fork([os.fsdecode(word) for word in argv], text, directory, given, _bounds(pid), mask)
        finally:
            for descriptor in given.values():
                os.close(descriptor)

    def fork(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        given: Mapping[int, int],
        bounds: Bounds,
        mask: int = 0o022,
    ) -> int:
        """The process id of a child that runs `pytest ...`, `python -m pytest ...` or the grader's call; `Cold` for anything else."""
        call = _call(argv, directory)
        if call is None or self._differs(environment) or not self.ready() or self._shadowed(directory):
            raise Cold
        child = os.fork()
        if child == 0:
            code = 70
            try:
                _take_over(directory, given, bounds, mask)
                self._become(call, environment)
                code = _run(call.code)
            finally:
                os._exit(code)
        return child

    def _differs(self, environment: Mapping[str, str]) -> bool:
        def decisive(values: Mapping[str, str]) -> dict[str, str]:
            prefixes = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "PYTEST_DEBUG", "PY_COLORS")
            return {key: value for key, value in values.items() if key.startswith(prefixes)}

        return decisive(environment) != decisive(self._own)

    def _shadowed(self, directory: str) -> bool:
        """Could a file here be what a cold interpreter imports under a name that is already loaded in this one?"""
        for folder in (directory, os.path.join(directory, "src"), os.path.join(directory, "tests")):
            try:
                names = os.listdir(folder)
            except FileNotFoundError:
                continue
            if any(name.partition(".")[0] in self._loaded for name in names if name.endswith(".py") or "." not in name):
                return True
        return False

    # --- in the child ---

    def _become(self, call: _Call, environment: Mapping[str, str]) -> None:
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [call.program, *call.arguments]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        if not call.code:
            vars(main)["__file__"] = call.program
        sys.path[0:1] = [call.path]
        for name in self._only_ours:
            sys.modules.pop(name, None)
        random = sys.modules.get("random")
        if random is not None:
            random.seed()
        self._use_config()

    def _use_config(self) -> None:
        """Gives pytest the configuration made before the fork, in the one place where it would make the same one now."""
        import pathlib  # pytest has it, a zygote without pytest needs no such

        import _pytest.config

        config, make = self._config, _pytest.config.get_config

        def get_config(args: Any = None, plugins: Any = None, *, prog: str | None = None) -> Any:
            _pytest.config.get_config = make
            if any("no:" in argument for argument in args or ()):  # a plugin that is left out must not have been there
                return make(args, plugins, prog=prog)
            config.invocation_params = type(config).InvocationParams(args=args or (), plugins=plugins, dir=pathlib.Path.cwd())
            if prog is not None:
                config._parser.prog = prog
            return config

        _pytest.config.get_config = get_config


def _take_over(directory: str, given: Mapping[int, int], bounds: Bounds, mask: int) -> None:
    os.setpgid(0, 0)
    high = {number: fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for number, descriptor in given.items()}
    for number, descriptor in high.items():
        os.dup2(descriptor, number)
    for number in range(3, 10):
        if number not in given:
            os.closerange(number, number + 1)
    os.closerange(10, 1 << 20)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(mask)
    for which, values in bounds.items():
        resource.setrlimit(which, values)
    system.dumpable(True)
    os.chdir(directory)


def _run(program: str) -> int:
    from _pytest.config import _console_main

    try:
        code = 0
        if program:
            exec(compile(program, "<string>", "exec"), vars(sys.modules["__main__"]))
        else:
            code = int(_console_main())
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    return code & 0xFF


def _call(argv: Sequence[str], directory: str) -> _Call | None:
    """What a command is as a call of pytest: `["python", "-m", "pytest", "-x"]` has the argument `-x`; `None` for another command."""
    name = os.path.basename(argv[0]) if argv else ""
    if name in _NAMES and argv[0] in (name, f"{_BIN}/{name}"):
        return _Call(f"{_BIN}/pytest", _BIN, argv[1:])
    if name not in _PYTHONS or argv[0] not in (name, f"{_BIN}/{name}"):
        return None
    if list(argv[1:3]) == ["-m", "pytest"]:
        return _Call(_main_file(), directory, argv[3:])
    if len(argv) > 2 and argv[1] == "-c" and argv[2].endswith(_GRADING):
        return _Call("-c", "", argv[3:], argv[2])
    return None


def _main_file() -> str:
    return str(importlib.import_module("pytest").__path__[0]) + "/__main__.py"


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def _bounds(pid: int) -> Bounds:
    found = {}
    for line in _read(pid, "limits").decode().splitlines():
        which = _LIMITS.get(line[:26].strip())
        if which is not None:
            soft, hard = (resource.RLIM_INFINITY if word == "unlimited" else int(word) for word in line[26:].split()[:2])
            found[which] = (soft, hard)
    return found
