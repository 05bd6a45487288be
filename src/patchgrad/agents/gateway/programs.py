"""Processes of a program of others: one imports it, once, and forks one for each attempt.

Importing takes seconds and hundreds of megabytes, which the forks share. A program breaks, hangs and is ended by itself. What it is told
and tells are lines of JSON; when this process ends, however, its input does, and it ends what it has begun.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError

NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
"""What a program has of this process's environment: no key of an account is among it."""


class Programs:
    """A process that runs `script` by a Python that has the program. Raises `ConfigError` where it does not start."""

    def __init__(self, python: str, script: Path, environment: Mapping[str, str]) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="patchgrad-program-")
        kept = {name: os.environ[name] for name in NEEDED if name in os.environ}
        local = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "TMPDIR": self._home.name}
        self._errors = (Path(self._home.name) / "errors").open("w+b")
        (theirs, to), (out, ours) = os.pipe(), os.pipe()
        self._to, self._from = os.fdopen(to, "wb"), os.fdopen(out, "rb")
        try:
            self._process = subprocess.Popen(
                [python, "-I", str(script)],
                stdin=theirs,
                stdout=ours,
                stderr=self._errors,
                env=kept | local | {name: value.replace("{home}", self._home.name) for name, value in environment.items()},
                cwd=self._home.name,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"agent.scaffold: {python} cannot be started: {error.strerror}.") from None
        finally:
            os.close(theirs)
            os.close(ours)
        self._numbers = itertools.count()
        self._reader = threading.Thread(target=self._read, name="programs", daemon=True)
        self._ended: dict[int, Callable[[str, str], None]] = {}
        self._lock = threading.Lock()
        told = json.loads(self._from.readline() or b"{}")
        self.version = str(told.get("version", ""))
        if not self.version:
            words = self._last_words()
            self.close()
            raise ConfigError(f"agent.scaffold: the program cannot be imported by {python}: {words or 'it said nothing'}.")
        self._reader.start()
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        """Does the process run?"""
        return self._process.poll() is None

    def start(self, job: Mapping[str, Any], ended: Callable[[str, str], None]) -> int:
        """Forks a program for a job and gives its number. `ended` is told from another thread how it was over, and by what it broke."""
        number = next(self._numbers)
        with self._lock:
            self._ended[number] = ended
        self._send({"number": number, **job})
        return number

    def stop(self, number: int) -> None:
        """Ends a program, where it still runs; nobody is told."""
        with self._lock:
            known = self._ended.pop(number, None)
        if known is not None:
            self._send({"stop": number})

    def close(self) -> None:
        """Ends all programs and the process."""
        atexit.unregister(self.close)
        with suppress(OSError):
            self._to.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader.ident is not None:
            self._reader.join(5)
        if not self._reader.is_alive():  # else some fork holds the other end: closing would wait for it
            self._from.close()
        self._errors.close()
        self._home.cleanup()

    def _send(self, told: Mapping[str, Any]) -> None:
        try:
            with self._lock:
                self._to.write(json.dumps(told).encode() + b"\n")
                self._to.flush()
        except (OSError, ValueError):
            self._lost()

    def _read(self) -> None:
        with suppress(ValueError):  # closed
            for line in self._from:
                told = json.loads(line)
                with self._lock:
                    ended = self._ended.pop(told["number"], None)
                if ended is not None:
                    ended(told["status"], told["detail"])
        self._lost()

    def _lost(self) -> None:
        """The process is gone, and with it every program."""
        with self._lock:
            ended, self._ended = list(self._ended.values()), {}
        for one in ended:
            one("lost", f"the process of all programs ended: {self._last_words()}")

    def _last_words(self) -> str:
        with suppress(ValueError, OSError):
            self._errors.flush()
            lines = (Path(self._home.name) / "errors").read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""


_here: dict[Sequence[object], Programs] = {}
_opening = threading.Lock()


def programs(python: str, script: Path, environment: Mapping[str, str]) -> Programs:
    """The process of this program that this process has; begun when it is first asked for, and again after it was lost."""
    key = (os.getpid(), python, script, tuple(sorted(environment.items())))
    with _opening:
        if key not in _here or not _here[key].alive:
            _here[key] = Programs(python, script, environment)
        return _here[key]
