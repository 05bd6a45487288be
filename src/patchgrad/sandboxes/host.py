"""What this host offers to sandboxes, and what to do about what it does not. Each answer comes from a try or a reading."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchgrad.sandboxes.bwrap import cgroups
from patchgrad.sandboxes.containers import engine

_LANDLOCK_CREATE_RULESET = 444
_TRY = """import ctypes, os
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):  # CLONE_NEWUSER
    os._exit(ctypes.get_errno())
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that a host may offer. Where it is not there, `without` says what that means and `advice` how to get it."""

    name: str
    there: bool
    found: str
    without: str
    advice: str


def offers(proc: Path = Path("/proc"), unshare: Callable[[], int] | None = None) -> list[Offer]:
    """Everything that a sandbox of this package can make use of, what matters most first. `unshare` tells the error of a try, or 0."""
    return [_bubblewrap(), _namespaces(proc, unshare or _unshare), _overlays(), _memory_cgroup(), _pressure(proc), _landlock(), _engine()]


def _bubblewrap() -> Offer:
    path = shutil.which("bwrap")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout.strip() if path else ""
    without = "no sandbox of the kind `bwrap` opens"
    return Offer("bubblewrap is installed", path is not None, said, without, "apt-get install bubblewrap")


def _unshare() -> int:
    return subprocess.run([sys.executable, "-I", "-S", "-c", _TRY], stdin=subprocess.DEVNULL, timeout=30, check=False).returncode


def _namespaces(proc: Path, unshare: Callable[[], int]) -> Offer:
    refused = unshare()
    found = "" if refused == 0 else f"unshare: {os.strerror(refused)}"
    without = "no sandbox of the kind `bwrap` opens; `landlock` is the weaker one that needs no namespaces"
    return Offer("ordinary users may make namespaces", refused == 0, found, without, _why_no_namespaces(proc))


def _why_no_namespaces(proc: Path) -> str:
    switches = {
        "kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        "kernel/apparmor_restrict_unprivileged_userns": ("1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        "user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    }
    for name, (closed, command) in switches.items():
        if _text(proc / "sys" / name).strip() == closed:
            return command
    return "in a container, start it with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Podman: `unmask=ALL`)"


def _overlays() -> Offer:
    release = os.uname().release
    numbers = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    without = "a tmpfs keeps no user attributes, which an ordinary user's overlay marks replaced folders with"
    return Offer("files can be stacked (Linux 6.6 or newer)", numbers >= (6, 6), f"Linux {release}", without, "a newer kernel")


def _memory_cgroup() -> Offer:
    found = cgroups.place()
    without = "the memory of a sandbox is looked at ten times a second instead"
    return Offer(
        "memory can be limited by a cgroup", found is not None, str(found or ""), without, "run as root, with a writable /sys/fs/cgroup"
    )


def _pressure(proc: Path) -> Offer:
    there = "avg10" in _text(proc / "pressure" / "memory")
    return Offer("the kernel tells when memory is short (PSI)", there, "", "only free memory decides who may open", "boot with psi=1")


def _landlock() -> Offer:
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    without = "a host without namespaces has no sandbox at all"
    return Offer("Landlock", version > 0, f"ABI {version}" if version > 0 else "", without, "a kernel with lsm=landlock, 5.13 or newer")


def _engine() -> Offer:
    there, found, helps = engine()
    without = "no sandbox of the kind `oci` opens"
    return Offer("a container engine answers", there, found, without, helps or "start Docker or `podman system service`")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
