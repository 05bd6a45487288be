"""Programs of others for tests, each in an environment of its own: those that `make guests` installs, or PATCHGRAD_GUESTS holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("PATCHGRAD_GUESTS", str(Path(sys.prefix) / "guests")))


def environment(name: str) -> Path:
    """The folder of an environment: `inspect`, `trl`, `verifiers`, `swebench`, `harbor` or `trackio`. Skips where it is not there."""
    if not (FOLDER / name / "bin" / "python").exists():
        pytest.skip(f"{name} is not installed in PATCHGRAD_GUESTS, nor by make guests")
    return FOLDER / name


def told(name: str, script: Path, *words: str, **variables: str) -> Any:
    """What a script that runs in a program's environment prints in its last line, which is JSON."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [environment(name) / "bin" / "python", str(script), *words],
        env={**os.environ, "PYTHONPATH": paths, **variables},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
