"""Is what training needs installed, of a version that is asked for, and can it be imported?"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from patchgrad.cli.check.finding import Finding
from patchgrad.cli.check.probe import Build, Tried
from patchgrad.cli.options import PACKAGES

SECONDS = 90.0
"""In which all packages have to be imported."""

TRAIN = "pip install 'patchgrad[train]'"


class Packages:
    """Tried by another process, which begins at once; `told` waits for it."""

    def __init__(self, names: Sequence[str] = PACKAGES) -> None:
        self._names = names
        command = [sys.executable, "-P", str(Path(__file__).with_name("probe.py")), *names]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)

    def told(self, seconds: float = SECONDS) -> tuple[list[Tried], Build | None]:
        """Each package, and of torch what it was built for. The package that ended the process, or its time, has that as its fault."""
        try:
            said, _ = self._process.communicate(timeout=seconds)
            end = f"its import ended Python ({_ended(self._process.returncode)})"
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
            end = f"it was not imported within {seconds:.0f} s"
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]  # a .pth file prints before the probe does
        found = [Tried(**line["tried"]) for line in lines]
        built = next(
            (Build(**{**line["build"], "gpus": tuple(map(tuple, line["build"]["gpus"]))}) for line in lines if line["build"]), None
        )
        return [*found, *(Tried(name, "?", end) for name in self._names[len(found) : len(found) + 1])], built


def packages(found: Sequence[Tried], built: Build | None) -> list[Finding]:
    """A line a package, with the one command that installs, renews or mends it."""
    wanted = versions()
    return [_package(one, wanted.get(one.name, ""), built if one.name == "torch" else None) for one in found]


def _package(one: Tried, wanted: str, built: Build | None) -> Finding:
    name = f"{one.name} is installed"
    if not one.version:
        return Finding(name, False, "training cannot do without it", help=TRAIN)
    if one.fault:
        return Finding(name, False, f"{one.version}, but {one.fault}", help=f"pip install --force-reinstall '{one.name}{wanted}'")
    if wanted.startswith(">=") and _numbers(one.version) < _numbers(wanted):
        return Finding(name, False, f"{one.version}, and {wanted} is needed", help=f"pip install '{one.name}{wanted}'")
    if wanted.startswith("==") and _numbers(one.version) != _numbers(wanted):
        return Finding(name, True, f"{one.version}, and patchgrad was tested with {wanted[2:]}", help=f"pip install '{one.name}{wanted}'")
    return Finding(name, True, f"{one.version}{_built(built)}")


def _built(built: Build | None) -> str:
    if built is None:
        return ""
    if not built.cuda:
        return ", a build for the cores"
    return f", a build for CUDA {built.cuda}" + ("" if built.gpus else ", larger than needed where there is no GPU")


def versions() -> Mapping[str, str]:
    """By a package of the extra `train` the versions that it may have, as `>=0.61`."""
    try:
        lines = requires("patchgrad") or ()
    except PackageNotFoundError:  # it runs from its source
        return {}
    found = (re.match(r"([\w-]+)\s*([<>=]=[\d.]+).*extra == [\"']train[\"']", line) for line in lines)
    return {one[1]: one[2] for one in found if one}


def _numbers(text: str) -> tuple[int, ...]:
    """`_numbers(">=0.61.2+cpu")` is (0, 61, 2)."""
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0])[:3])


def _ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
