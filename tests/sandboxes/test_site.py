"""The packages of a sandbox are installed by pip, and a Python without it is told what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import patchgrad

SCRIPT = """
import sys
from pathlib import Path
from patchgrad.errors import MissingDependency
from patchgrad.packages.sites import ensure_site
try:
    ensure_site(folder=Path(sys.argv[1]))
except MissingDependency as refused:
    print(refused)
"""


def test_a_python_without_pip_is_told_how_to_get_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    told = {**os.environ, "PYTHONPATH": str(Path(patchgrad.__file__).parents[1])}
    words = [str(tmp_path / "bare" / "bin" / "python"), "-c", SCRIPT, str(tmp_path / "sites")]
    done = subprocess.run(words, env=told, capture_output=True, text=True, check=True)
    assert done.stdout == f"a sandbox needs packages, and this Python has no pip to install them: {words[0]} -m ensurepip\n"
    assert [path.name for path in (tmp_path / "sites").iterdir()] == [".lock"], "nothing half made is left"
