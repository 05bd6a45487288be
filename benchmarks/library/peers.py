"""Peers: each in an environment of its own, below the cache, since their versions are not ours.

TRL.answer("-c", program)           what it prints last, from JSON
TRL.python                          its interpreter, for a process that stays
"""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.library.command import told

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}  # glibc's: nothing is given back


class PeerFailed(SystemExit):
    """A peer ended otherwise than by saying what it found, which ends a script that does not catch it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer by its name and its packages; those that are `alone` come without what they ask for."""

    name: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        """Its interpreter; the environment is made when it is asked for first, and anew when other packages are."""
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "patchgrad" / "peers" / self.name
        asked, made = " ".join([*self.alone, *self.packages]), home / "packages"
        if not made.exists() or made.read_text() != asked:
            venv.create(home, with_pip=True, clear=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q"]
            if self.alone:
                subprocess.run([*pip, "--no-deps", *self.alone], check=True)
            subprocess.run([*pip, *self.packages], check=True)
            made.write_text(asked)
        return str(home / "bin" / "python")

    def answer(self, *words: str | Path, around: Mapping[str, str] | None = None) -> Any:
        """What a program of its says last, read as JSON; `PeerFailed` has the end of what it complained of."""
        done = subprocess.run([self.python, *words], check=False, capture_output=True, text=True, env={**os.environ, **(around or {})})
        if done.returncode:
            raise PeerFailed(f"{self.name} failed: {done.stderr.strip()[-500:]}")
        return told(done.stdout)

    def versions(self, *packages: str) -> dict[str, str]:
        """Of packages as they are installed there."""
        program = f"import json; from importlib.metadata import version; print(json.dumps({{n: version(n) for n in {packages}}}))"
        return dict(self.answer("-c", program))


TRL = Peer("trl", ("torch==2.13.0", "trl==1.16.0", "peft==0.21.2", "aiohttp"))
MINI_SWE_AGENT = Peer("mini-swe-agent", ("mini-swe-agent==2.4.6",))
SWE_REX = Peer("swe-rex", ("swe-rex==1.4.0", "aiohttp"))
