"""Running a package's tests while forging: one fresh copy of the tree, one process, one report."""

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
import venv
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from patchgrad.errors import TaskError
from patchgrad.values import digest

TOOLS = ("pytest==9.2.0",)
PATIENCE = 6.0
_PLUGIN = Path(__file__).with_name("pytest_forge.py")


@dataclass(frozen=True, slots=True)
class Failure:
    """How one test failed. `shown` is a call that shows it without the test: `imports`, `code`, `actual`, `expected`."""

    kind: str
    message: str
    statement: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run told: `outcomes` of every test that ran; `cover` maps a file and a line to the tests that ran it."""

    state: Literal["ok", "timeout", "died"]
    outcomes: Mapping[str, str]
    seconds: Mapping[str, float]
    failures: Mapping[str, Failure]
    broken: tuple[str, ...] = ()
    cover: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    tried: tuple[bool, ...] = ()


class Runner(Protocol):
    """Runs tests of a tree and reports. `tests` are node ids, or files to run whole; `cover` are paths whose lines are traced.

    With `tries` no test runs: each `Failure.shown` among them is called, and `Run.tried` says which give what is expected.
    Runs of another `variation` place objects elsewhere in memory, so that test ids made from the order of a set give themselves away.
    """

    async def __call__(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        places: Sequence[str],
        cover: Sequence[str] = (),
        explain: bool = False,
        variation: int = 0,
        tries: Sequence[Mapping[str, str]] = (),
        seconds: float = 30.0,
    ) -> Run: ...


def toolchain(cache: Path) -> Path:
    """The interpreter of a virtual environment with just pytest, made once a version in the cache folder."""
    folder = cache / f"toolchain-{digest(*TOOLS, sys.version)[:12]}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, clear=True, symlinks=True, with_pip=False)
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *TOOLS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            reason = " ".join(done.stderr.strip().splitlines()[-1:])
            raise TaskError(f"The tools to run test suites ({', '.join(TOOLS)}) could not be installed ({reason}).")
        (folder / "ready").touch()
    return python


class LocalRunner:
    """The default: a child process with limits on memory, CPU time and file size, in a temporary folder.

    This bounds accidents; it is no sandbox. Use it for packages that you would also install. Compiled files are kept between runs
    and stay valid, because a file's time is made from its content. `seconds` are of CPU time; the clock may show six times as many,
    so that a busy machine gives the same answers as an idle one.
    """

    def __init__(self, python: Path, memory: int = 2 << 30) -> None:
        self._python = python
        self._memory = memory
        self._home = Path(tempfile.mkdtemp(prefix="forge-"))
        self._free: list[Path] = []
        self._slots = 0

    def close(self) -> None:
        """Remove the temporary folders."""
        shutil.rmtree(self._home, ignore_errors=True)

    async def __call__(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        *,
        places: Sequence[str],
        cover: Sequence[str] = (),
        explain: bool = False,
        variation: int = 0,
        tries: Sequence[Mapping[str, str]] = (),
        seconds: float = 30.0,
    ) -> Run:
        if not self._free:
            self._slots += 1
            self._free.append(self._home / str(self._slots))
        slot = self._free.pop()
        try:
            tree = slot / "testbed"
            _lay_out(tree, files)
            request = {
                "report": str(slot / "report.jsonl"),
                "tree": f"{tree}/",
                "tests": [t for t in tests if "::" in t],
                "places": [str(tree / place) for place in places],
                "cover": [str(tree / path) for path in cover],
                "explain": explain,
                "variation": variation,
                "tries": [dict(shown) for shown in tries],
                "memory": self._memory,
                "cpu": int(seconds) + 1,
            }
            (slot / "request.json").write_text(json.dumps(request))
            shutil.copyfile(_PLUGIN, slot / "pytest_forge.py")
            state = await self._run(slot, sorted({t.split("::")[0] for t in tests}), seconds)
            return _read(slot / "report.jsonl", tree, state)
        finally:
            self._free.append(slot)

    async def _run(self, slot: Path, files: Sequence[str], seconds: float) -> Literal["ok", "timeout", "died"]:
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(slot),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(slot),
            "PYTHONHASHSEED": "0",
            "PYTHONPYCACHEPREFIX": str(slot / "compiled"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATCHGRAD_FORGE": str(slot / "request.json"),
        }
        command = [
            str(self._python),
            "-m",
            "pytest",
            "-p",
            "pytest_forge",
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=no",
            "--no-header",
        ]
        # Not asyncio's own subprocess: on Python 3.11.2 a task that was cancelled while it started one waited for it for ever.
        process = subprocess.Popen(
            [*command, "--continue-on-collection-errors", *files],
            cwd=slot / "testbed",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = await asyncio.wait_for(asyncio.to_thread(process.wait), PATIENCE * seconds)
        except TimeoutError:
            return "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever a test left running
            process.wait()
        return "ok" if code in (0, 1, 2) else "timeout" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "died"


def _lay_out(tree: Path, files: Mapping[str, bytes]) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time := zlib.crc32(content) >> 1, time))


def _read(report: Path, tree: Path, state: Literal["ok", "timeout", "died"]) -> Run:
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
            if row["event"] == "call" or row["outcome"] != "passed":
                outcomes[name] = "error" if row["outcome"] == "failed" and row["event"] != "call" else row["outcome"]
            if "kind" in row and name not in failures:
                failures[name] = Failure(row["kind"], row["message"], row.get("statement", ""), row.get("shown", {}))
        elif row["event"] == "cover":
            for file, line in row["lines"]:
                cover.setdefault(file.removeprefix(f"{tree}/"), {}).setdefault(line, []).append(row["id"])
    if state == "ok" and not any(row["event"] == "end" for row in rows):
        state = "died"
    found = {file: {line: tuple(tests) for line, tests in lines.items()} for file, lines in cover.items()}
    broken = tuple(row["id"] for row in rows if row["event"] == "broken")
    return Run(state, outcomes, seconds, failures, broken, found, tuple(row["good"] for row in rows if row["event"] == "tried"))
