"""The interpreters of peers: each in an environment of its own, below the cache, since their versions are not ours."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterable
from pathlib import Path

TRL = ("torch==2.13.0", "trl==1.16.0", "aiohttp")


def interpreter(name: str, packages: Iterable[str], alone: Iterable[str] = ()) -> str:
    """A peer's Python, made at the first call and when other packages are asked for; what is `alone` comes without what it asks for."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "patchgrad" / "peers" / name
    packages, alone, made = list(packages), list(alone), home / "packages"
    asked = " ".join([*alone, *packages])
    if not made.exists() or made.read_text() != asked:
        venv.create(home, with_pip=True, clear=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "-q"]
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        subprocess.run([*pip, *packages], check=True)
        made.write_text(asked)
    return str(home / "bin" / "python")
