"""Runs a benchmark and keeps what it found beside the machine that it was found on; then writes `docs/benchmarks.md` anew.

    python benchmarks/keep.py trainer --as trainer-75 --note "two training runs went on beside it" -- --shared 0.75
    python benchmarks/keep.py --page            only the page

A benchmark prints JSON last. `docs/benchmarks/NAME.json` is that, the command, the date, the machine and the versions; `page.py` says how
each becomes a table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from page import HERE, PAGE, written

ASKED = (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--", "../src", "."))
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


def versions() -> dict[str, str]:
    """Of what matters for speed, as installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """Of what was measured; with a `+` where files of it had been changed since."""
    told = [subprocess.run(["git", "-C", HERE, *words], capture_output=True, text=True, check=True).stdout.strip() for words in ASKED]
    return told[0] + ("+" if told[1] else "")


def kept(name: str, words: list[str], label: str, note: str) -> Path:
    """Runs a benchmark and writes its file."""
    measured = commit()  # before it runs, which can take an hour
    done = subprocess.run([sys.executable, HERE / f"{name}.py", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}, and nothing was kept.")
    told = {
        "benchmark": name,
        "command": shlex.join(["python", f"benchmarks/{name}.py", *words]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": measured,
        "note": note,
        "machine": machine(),
        "versions": versions(),
        "result": json.loads(done.stdout.strip().splitlines()[-1]),
    }
    path = PAGE.with_suffix("") / f"{label or name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")
    return path


def main() -> None:
    """Keeps, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="a script beside this one, without .py")
    parser.add_argument("--as", dest="label", default="", help="the file's name, where one benchmark has several")
    parser.add_argument("--note", default="", help="what else went on on the machine")
    parser.add_argument("--page", action="store_true")
    own = sys.argv[1:]
    behind = own.index("--") if "--" in own else len(own)  # the benchmark's own options
    options = parser.parse_args(own[:behind])
    if not options.page and not options.name:
        parser.error("name a benchmark, or --page")
    if options.name:
        print(kept(options.name, own[behind + 1 :], options.label, options.note))
    PAGE.write_text(written(PAGE.with_suffix("")))
    print(PAGE)


if __name__ == "__main__":
    main()
