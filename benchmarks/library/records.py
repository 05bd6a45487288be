"""What a benchmark found, beside where it was found: `docs/benchmarks/NAME.json`."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.library.command import told
from benchmarks.library.peers import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = PAGE.with_suffix("")
SCRIPTS = ROOT / "benchmarks"
PACKAGES = ("torch", "numpy", "numba", "transformers")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, kernel; and the GPU where there is one."""
    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    model = next((value.strip() for name, value in fields.items() if name.strip() == "model name"), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": model, "cores": os.cpu_count(), "memory": memory, "linux": platform.release().partition("-")[0], "gpu": _card()}


def _card() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def versions(*packages: str) -> dict[str, str]:
    """Of Python, and of packages as far as they are installed; of those that matter for speed where none is named."""
    found = {"python": platform.python_version()}
    for name in packages or PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """Of what is measured; with a `+` where files of it have been changed since."""
    asked = (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--", "src", "benchmarks"))
    said = [subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip() for words in asked]
    return said[0] + ("+" if said[1] else "")


def command(name: str, words: Sequence[str]) -> str:
    """How a benchmark is run again from a checkout."""
    return shlex.join(["python", f"benchmarks/{name}.py", *words])


def kept(name: str, words: Sequence[str], label: str, note: str) -> Path:
    """Runs a benchmark, `training/trainer` for one, and writes its file."""
    measured = commit()  # before it runs, which can take an hour
    done = subprocess.run([sys.executable, SCRIPTS / f"{name}.py", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}, and nothing was kept.")
    record = {
        "benchmark": name,
        "command": command(name, words),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": measured,
        "note": note,
        "machine": machine(),
        "versions": versions(),
        "result": told(done.stdout),
    }
    path = FOLDER / f"{label or Path(name).name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def records() -> dict[str, dict[str, Any]]:
    """All that was kept, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
