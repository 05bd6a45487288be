"""The packages that training needs, each imported by a process of its own: torch takes seconds, and a broken one ends the process.

    python -P probe.py torch numba    one JSON object a line, as each is tried

`Build` is what the line of torch says.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@dataclass(frozen=True, slots=True)
class Tried:
    """A package: its version, empty where it is not installed, and why it cannot be imported."""

    name: str
    version: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """What torch was built for (`cuda` is empty in a build for the cores), the GPUs that added something up, and what kept one from it.

    A GPU is its name, its free bytes and all of them.
    """

    cuda: str = ""
    gpus: tuple[tuple[str, int, int], ...] = ()
    trouble: str = ""


def tried(name: str) -> tuple[Tried, Any]:
    """Of a package, and the package."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return Tried(name), None
    try:
        return Tried(name, found), import_module(name)
    except Exception as error:
        return Tried(name, found, f"{type(error).__name__}: {error}".splitlines()[0]), None


def build(torch: Any) -> Build:
    """Each GPU that torch sees adds one and one."""
    found: list[tuple[str, int, int]] = []
    cuda = str(torch.version.cuda or torch.version.hip or "")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
                torch.ones(1, device=f"cuda:{number}").add_(1).item()
                found.append((torch.cuda.get_device_name(number), *torch.cuda.mem_get_info(number)))
        except Exception as error:
            return Build(cuda, tuple(found), str(error).splitlines()[0])
    return Build(cuda, tuple(found), "" if found else " ".join(str(one.message).splitlines()[0] for one in told[:1]))


def main(names: list[str]) -> None:
    """A line for each, as soon as it is tried. What a package prints goes to the standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in names:
        one, module = tried(name)
        line = {"tried": asdict(one), "build": asdict(build(module)) if name == "torch" and module else None}
        print(json.dumps(line), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
