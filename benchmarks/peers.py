"""The interpreters of peers: each in an environment of its own, below the cache, since their versions are not ours."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterable
from pathlib import Path

TRL = ("torch==2.13.0", "trl==1.16.0", "aiohttp")


def interpreter(name: str, packages: Iterable[str], alone: Iterable[str] = ()) -> str:
    """A peer's Python, made at the first call; what is `alone` comes without what it asks for."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "patchgrad" / "peers" / name
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        pip = [python, "-m", "pip", "install", "-q"]
        if alone := list(alone):
            subprocess.run([*pip, "--no-deps", *alone], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([*pip, *packages], check=True, stderr=subprocess.DEVNULL)
    return str(python)
