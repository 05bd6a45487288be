"""Running a project's tests while tasks are made: one tree, one fork of a process that has pytest loaded, one report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, Protocol, cast

PATIENCE = 6.0
_HERE = Path(__file__).parent
_START_SECONDS = 60.0
State = Literal["ok", "timeout", "died"]


@dataclass(frozen=True, slots=True)
class Failure:
    """How one test failed. `shown` is a call that shows it without the test: `imports`, `code`, `actual`, `expected`.

    `script` is the failing statement so that it stands alone, `statement` the function of the package that the test came in by.
    """

    kind: str
    message: str
    statement: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)
    script: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run told: `outcomes` of every test that ran; `cover` maps a file and a line to the tests that ran it.

    `broken` are the files that could not be collected, and `reasons` say why; `skips` are the reasons of tests that did not want to run,
    `passed_over` those of files that did not want to be collected.
    """

    state: State
    outcomes: Mapping[str, str]
    seconds: Mapping[str, float]
    failures: Mapping[str, Failure]
    broken: tuple[str, ...] = ()
    cover: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    tried: tuple[bool, ...] = ()
    reasons: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is to tell beside outcomes: which tests run which lines of the paths to `cover`, and how each failure can be shown.

    With `tries` no test runs: each `Failure.shown` among them is called, and `Run.tried` says which give what is expected.
    """

    cover: Sequence[str] = ()
    explain: bool = False
    tries: Sequence[Mapping[str, str]] = ()


NOTHING = Asked()


class Runner(Protocol):
    """Runs tests of a tree and reports. `tests` are node ids, or files to run whole.

    A run of another `variation` has another hash seed, another order of tests, and objects elsewhere in memory: what depends on any of
    these gives itself away. Variation 0 is the tests' own order, 1 turns it round.
    """

    async def __call__(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        places: Sequence[str],
        asked: Asked = NOTHING,
        variation: int = 0,
        seconds: float = 30.0,
    ) -> Run: ...


class LocalRunner:
    """The default: child processes with limits on memory, CPU time and file size, in temporary folders, with the packages of a `site`.

    This bounds accidents; it is no sandbox. Use it for projects that you would also install. Compiled files are kept between runs
    and stay valid, because a file's time is made from its content. `seconds` are of CPU time; the clock may show six times as many,
    so that a busy machine gives the same answers as an idle one.
    """

    def __init__(self, site: Path, memory: int = 2 << 30) -> None:
        self._site, self._memory = site, memory
        self._home = Path(tempfile.mkdtemp(prefix="forge-"))
        for name in ("pytest_forge.py", "pytest_forge_failures.py"):
            shutil.copyfile(_HERE / name, self._home / name)
        self._free: list[_Slot] = []
        self._slots = 0
        self._servers: dict[int, list[_Server]] = {}

    def close(self) -> None:
        """Ends the processes and removes the temporary folders."""
        for servers in self._servers.values():
            for server in servers:
                server.close()
        self._servers = {}
        shutil.rmtree(self._home, ignore_errors=True)

    async def __call__(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        places: Sequence[str],
        asked: Asked = NOTHING,
        variation: int = 0,
        seconds: float = 30.0,
    ) -> Run:
        if not self._free:
            self._slots += 1
            self._free.append(_Slot(self._home / str(self._slots)))
        slot = self._free.pop()
        try:
            slot.lay_out(files)
            tree = slot.tree
            request = {
                "report": str(slot.report),
                "tree": f"{tree}/",
                "tests": [t for t in tests if "::" in t],
                "places": [str(tree / place) for place in places],
                "cover": [str(tree / path) for path in asked.cover],
                "explain": asked.explain,
                "variation": variation,
                "tries": [dict(shown) for shown in asked.tries],
                "memory": self._memory,
                "cpu": int(seconds) + 1,
            }
            (slot.folder / "request.json").write_text(json.dumps(request))
            own = ["-c", "pytest.ini"] if "pytest.ini" in files else []  # whatever a folder below says of its own tests
            state = await self._run(slot, variation, [*own, *sorted({t.split("::")[0] for t in tests})], seconds)
            return _read(slot.report, tree, state)
        finally:
            self._free.append(slot)

    async def _run(self, slot: _Slot, variation: int, words: Sequence[str], seconds: float) -> State:
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(slot.home),
            "TMPDIR": str(slot.temporary),
            "LANG": "C.UTF-8",
            "TERM": "dumb",  # as in a sandbox, from here on: what a library prints may depend on it
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "PYTHONPATH": f"{slot.tree}:{self._site}",
            "PYTHONHASHSEED": str(variation),
            "PYTHONPYCACHEPREFIX": str(slot.folder / "compiled"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATCHGRAD_FORGE": str(slot.folder / "request.json"),
        }
        options = ["-p", "pytest_forge", "-p", "no:cacheprovider", "-qq", "--tb=no", "--no-header", "--no-summary"]
        options += ["--continue-on-collection-errors"]
        order = {"tree": str(slot.tree), "plugin": str(self._home), "environment": environment, "arguments": [*options, *words]}
        idle = self._servers.setdefault(variation, [])
        server = idle.pop() if idle else _Server(self._site, variation)
        try:
            return await server.run(order, PATIENCE * seconds)
        finally:
            if server.gone:
                server.close()
            else:
                idle.append(server)


class _Server:
    """One process of `server.py`, for one run at a time."""

    def __init__(self, site: Path, hash_seed: int) -> None:
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "PYTHONHASHSEED": str(hash_seed)}
        # Not asyncio's own subprocess: on Python 3.11.2 a task that was cancelled while it started one waited for it for ever.
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-S", str(_HERE / "server.py"), str(site)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",
        )
        self._orders, self._told = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        self.gone = False

    async def run(self, order: Mapping[str, Any], seconds: float) -> State:
        """How the run ended; a server that is interrupted, by whatever, is `gone`."""
        child, ended = 0, False
        try:
            child = int(await asyncio.wait_for(asyncio.to_thread(self._ask, json.dumps(order)), _START_SECONDS))
            status = int(await asyncio.wait_for(asyncio.to_thread(self._line), seconds))
            ended = True
        except (TimeoutError, ValueError, OSError):
            return "timeout" if child else "died"
        finally:
            if child:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # whatever a test left running
            self.gone = not ended
            if not ended:
                self._process.kill()
        code = os.waitstatus_to_exitcode(status)
        return "ok" if code in (0, 1, 2, 4, 5) else "timeout" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "died"

    def _ask(self, order: str) -> str:
        self._orders.write(order + "\n")
        self._orders.flush()
        return self._line()

    def _line(self) -> str:
        return self._told.readline()

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()


class _Slot:
    """A folder with a tree that one run at a time uses; what the last one did to it is put right, and not all of it written again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree, self.report = folder, folder / "testbed", folder / "report.jsonl"
        self.home, self.temporary = folder / "home", folder / "tmp"
        folder.mkdir(parents=True)
        self._known: dict[str, tuple[bytes, tuple[int, ...]]] = {}

    def lay_out(self, files: Mapping[str, bytes]) -> None:
        """Makes the tree hold these files and nothing else, and the home and temporary folders nothing at all."""
        self.report.unlink(missing_ok=True)
        for folder in (self.home, self.temporary):
            if folder.exists():
                _remove(str(folder))
            folder.mkdir()
        there = self._kept(files)
        for name, content in files.items():
            if name not in there:
                self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        path, time = self.tree / name, (zlib.crc32(content) >> 1) * 10**9
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(time, time))
        self._known[name] = content, _state(path.stat())

    def _kept(self, files: Mapping[str, bytes]) -> set[str]:
        """The files that lie there as they are to be; everything else is removed, folders that hold none of them too."""
        self.tree.mkdir(exist_ok=True)
        above = {str(parent) for name in files for parent in PurePosixPath(name).parents}
        kept, folders = set(), [""]
        while folders:
            folder = folders.pop()
            os.chmod(self.tree / folder, 0o755)  # a test may have closed it
            for entry in list(os.scandir(self.tree / folder)):
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name in above:
                        folders.append(name)
                    else:
                        _remove(entry.path)
                    continue
                content, state = self._known.get(name, (None, ()))
                if name in files and content == files[name] and state == _state(entry.stat(follow_symlinks=False)):
                    kept.add(name)
                else:
                    os.unlink(entry.path)
        return kept


def _state(about: os.stat_result) -> tuple[int, ...]:
    """Another one for a file that was changed in any way; a program can set the time of its content, but not that of its last change."""
    return about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _remove(folder: str) -> None:
    os.chmod(folder, 0o755)
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            _remove(entry.path)
        else:
            os.unlink(entry.path)
    os.rmdir(folder)


def _read(report: Path, tree: Path, state: State) -> Run:
    rows: list[dict[str, Any]] = []
    if report.exists():
        for line in report.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:  # the process was killed within a line
                break
    outcomes: dict[str, str] = {}
    seconds: dict[str, float] = {}
    failures: dict[str, Failure] = {}
    cover: dict[str, dict[int, list[str]]] = {}
    for row in rows:
        if row["event"] in ("setup", "call", "teardown"):
            name = row["id"]
            seconds[name] = seconds.get(name, 0.0) + row["seconds"]
            told = row["event"] == "call" or row["outcome"] != "passed"
            if told and outcomes.get(name) not in ("failed", "error"):  # a part of it that failed (a subtest) is told of before the whole
                outcomes[name] = "error" if row["outcome"] == "failed" and row["event"] != "call" else row["outcome"]
            if "kind" in row and name not in failures:
                failures[name] = Failure(row["kind"], row["message"], row.get("statement", ""), row.get("shown", {}), row.get("script", ""))
        elif row["event"] == "cover":
            for file, lines in row["lines"].items():
                traced = cover.setdefault(file.removeprefix(f"{tree}/"), {})
                for line in lines:
                    traced.setdefault(line, []).append(row["id"])
    if state == "ok" and not any(row["event"] == "end" for row in rows):
        state = "died"
    found = {file: {line: tuple(tests) for line, tests in lines.items()} for file, lines in cover.items()}
    broken = [row for row in rows if row["event"] == "broken"]
    names, reasons = tuple(row["id"] for row in broken), tuple(row["reason"].replace(f"{tree}/", "") for row in broken)
    tried = tuple(row["good"] for row in rows if row["event"] == "tried")
    skips = tuple(sorted({row["reason"] for row in rows if "reason" in row and row["event"] != "broken"}))
    passed_over = {row["id"]: row["reason"] for row in rows if row["event"] == "skipped"}
    return Run(state, outcomes, seconds, failures, names, found, tried, reasons, skips, passed_over)
