"""What else stops a newcomer: the system and its Python, cores, memory, the disks that a run writes to, and the GPU."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from patchgrad.cli.check.finding import Finding
from patchgrad.cli.check.probe import Build
from patchgrad.runs.planning.host_memory import free
from patchgrad.runs.planning.plan import size

LEAST = 2_500_000_000
"""Bytes of memory that the recipes `smoke` and `laptop` take with one sandbox, by `patchgrad plan`, rounded up."""

ROOM = 1_000_000_000
"""Bytes of disk: a run by the recipe `laptop` takes a third of it at most, by `patchgrad plan`."""

BUILDS = {(13, 0): "cu130", (12, 6): "cu126"}
"""By the least CUDA that a driver has to offer the build of torch that it runs, newest first."""


def machine(built: Build | None, wanted: str) -> list[Finding]:
    """In the order in which things stop a newcomer. `wanted` are the versions of torch that are asked for, as `==2.13.0`."""
    return [
        *system(),
        Finding("cores", True, f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} may be used"),
        memory(),
        disk("disk for runs", lambda: Path("runs").absolute(), "patchgrad train smoke --run /another/disk/run"),
        disk("disk for other files", lambda: Path(tempfile.gettempdir()), "export TMPDIR=/another/disk"),
        gpu(built, wanted),
    ]


def system(name: str = platform.system()) -> list[Finding]:
    """The system and its Python."""
    linux = name == "Linux"
    note = platform.release() if linux else f"this is {name}, and sandboxes are made of what the kernel of Linux offers"
    return [
        Finding("Linux", linux, note, help="wsl --install" if name == "Windows" else ""),
        Finding("Python 3.11 or newer", sys.version_info >= (3, 11), platform.python_version()),
    ]


def memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Finding:
    """What is free, where a control group's limit counts, is enough for a small run."""
    try:
        there, whole = free(proc, cgroup), _whole(proc)
    except (OSError, KeyError) as error:
        return Finding("memory", False, f"the kernel does not tell how much there is ({error})", needed=False)
    note = f"{size(there)} free of {size(whole)}"
    if there >= LEAST:
        return Finding("memory", True, note)
    limited = free(proc, Path("/nowhere")) >= LEAST
    helps = "docker run --memory 8g ..." if limited else "ps -eo rss,pid,comm --sort=-rss | head"
    why = ", by the limit of this container or group" if limited else ""
    return Finding("memory", False, f"{note}{why}; the recipe smoke takes {size(LEAST)}", help=helps)


def _whole(proc: Path) -> int:
    found = re.search(r"MemTotal:\s*(\d+)", (proc / "meminfo").read_text())
    return int(found[1]) * 1024 if found else 0


def disk(name: str, place: Callable[[], Path], helps: str, least: int = ROOM) -> Finding:
    """Where files are written, or the nearest folder above that is there, has room and may be written to."""
    folder: Path | None = None
    try:
        whole = place()
        folder = next(path for path in (whole, *whole.parents) if path.is_dir())
        tempfile.TemporaryFile(dir=folder).close()
        there = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(name, False, f"nothing can be written to {folder or 'a folder'}: {error.strerror or error}", help=helps)
    if there < least:
        return Finding(name, False, f"{size(there)} free in {folder}; a run takes up to {size(least)}", help=helps)
    return Finding(name, True, f"{size(there)} free in {folder}")


def gpu(built: Build | None, wanted: str, pci: Path = Path("/sys/bus/pci/devices")) -> Finding:
    """A GPU that torch computes with; small recipes do without one. `wanted` are the versions of torch, as `==2.13.0`."""
    if built and built.gpus:
        told = ", ".join(f"{name} with {size(spare)} free of {size(whole)}" for name, spare, whole in built.gpus)
        return Finding("a GPU", not built.trouble, f"{told}{'; ' if built.trouble else ''}{built.trouble}", needed=False)
    cards, cuda = _driver()
    if not cards and _card_without_driver(pci):
        note = "a card of NVIDIA's is there, and its driver is not"
        return Finding("a GPU", False, note, needed=False, help="sudo ubuntu-drivers install")
    if not cards:
        return Finding("a GPU", False, "there is none; smoke, laptop and every recipe with machine.gpus 0 train on the cores", needed=False)
    fits = next((name for least, name in BUILDS.items() if cuda >= least), "")
    helps = f"pip install 'torch{wanted}+{fits}'" if fits else "sudo ubuntu-drivers install"
    if built is None:
        return Finding("a GPU", False, f"{cards}; no torch is there to compute with it", needed=False, help=helps)
    if not built.cuda:
        return Finding("a GPU", False, f"{cards}; torch is a build for the cores and sees none", needed=False, help=helps)
    if "CUDA_VISIBLE_DEVICES" in os.environ and not built.trouble:
        note = f"{cards}; CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']} hides it from torch"
        return Finding("a GPU", False, note, needed=False, help="unset CUDA_VISIBLE_DEVICES")
    return Finding("a GPU", False, f"{cards}; torch cannot use it: {built.trouble or 'it gave no reason'}", needed=False, help=helps)


def _driver() -> tuple[str, tuple[int, int]]:
    """The cards that NVIDIA's driver tells of, as text, and the newest CUDA that it offers."""
    asked = "--query-gpu=name,memory.total,driver_version"
    cards = [", ".join(_card(line)) for line in _smi(asked, "--format=csv,noheader,nounits") if line.count(",") == 2]
    found = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", "\n".join(_smi())) if cards else None
    cuda = (int(found[1]), int(found[2])) if found else (0, 0)
    return "; ".join(cards) + f", CUDA {cuda[0]}.{cuda[1]}" * bool(found), cuda


def _card(line: str) -> Iterator[str]:
    name, mebibytes, driver = (part.strip() for part in line.split(","))
    yield name
    if mebibytes.isdecimal():
        yield size(int(mebibytes) << 20)
    yield f"driver {driver}"


def _smi(*words: str) -> list[str]:
    try:
        done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _card_without_driver(pci: Path) -> bool:
    """Is a display controller of NVIDIA's on the bus?"""
    for device in pci.glob("*"):
        try:
            if (device / "vendor").read_text().strip() == "0x10de" and (device / "class").read_text().startswith("0x03"):
                return True
        except OSError:
            continue
    return False
