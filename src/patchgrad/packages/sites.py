"""The `site-packages` of a sandbox: pytest and hypothesis at fixed versions, and what its task names, built once a machine.

The host's own packages are not visible inside, so no installed original of a repository can be read there instead of repairing it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from patchgrad.errors import MissingDependency

PINS = (
    "pytest==9.2.0",
    "hypothesis==6.170.15",
    "iniconfig==2.3.1",
    "packaging==26.3",
    "pluggy==1.7.0",
    "pygments==2.21.0",
    "sortedcontainers==2.4.0",
)
_PLUGIN = Path(__file__).parents[1] / "grading_plugin"
_BUILD_SECONDS = 600


def ensure_site(packages: Iterable[str] = (), folder: Path | None = None) -> Path:
    """The folder with `PINS` and these, built by pip at first use below `cache() / "sites"`, under a lock and renamed when whole.

    A pin in `packages` takes the place of ours of the same name, as in `ensure_site(["pytest==8.4.2"])`. `MissingDependency` when pip
    cannot install one: it says which.
    """
    pins = merged(packages)
    plugin = {path.name: path.read_bytes() for path in sorted(_PLUGIN.glob("patchgrad_*.py"))}
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = hashlib.sha256("\n".join((*pins, version, *(content.decode() for content in plugin.values()))).encode()).hexdigest()[:16]
    top = folder or sites()
    site = top / f"{version}-{key}"
    if site.is_dir():
        return site
    top.mkdir(parents=True, exist_ok=True)
    with open(top / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.is_dir():
            _build(site, pins, plugin)
    return site


def merged(packages: Iterable[str]) -> tuple[str, ...]:
    """`PINS` with these over them: `merged(["attrs==26.1.0", "pluggy==1.6.0"])` has seven pins of ours less one, and two more."""
    given = {distribution(pin): pin for pin in packages}
    return tuple(sorted([*(pin for pin in PINS if distribution(pin) not in given), *given.values()]))


def distribution(requirement: str) -> str:
    """The name that a requirement is about, in the form in which names are compared: `Foo_Bar[x]>=1` -> `foo-bar`."""
    name = re.match(r"\s*([A-Za-z0-9._-]*[A-Za-z0-9])", requirement)
    return re.sub(r"[-_.]+", "-", name.group(1)).lower() if name else ""


def cache() -> Path:
    """Where what is made once a machine lies: `$XDG_CACHE_HOME/patchgrad`, by default in the home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "patchgrad"


def sites() -> Path:
    """The folder that holds the sites."""
    return cache() / "sites"


def _build(site: Path, pins: Sequence[str], plugin: Mapping[str, bytes]) -> None:
    work = Path(tempfile.mkdtemp(dir=site.parent, prefix="."))
    try:
        _install(work, pins)
        for name, content in plugin.items():
            (work / name).write_bytes(content)
        shutil.rmtree(work / "bin", ignore_errors=True)
        compile_all = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(work)]
        subprocess.run(compile_all, check=False, timeout=_BUILD_SECONDS, stdout=subprocess.DEVNULL)
        for folder, names, files in os.walk(work):
            for name in (*names, *files):
                path = os.path.join(folder, name)
                os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
        work.chmod(0o755)
        work.rename(site)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _install(work: Path, pins: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--prefer-binary"]
    command += ["--disable-pip-version-check", "--target", str(work), *pins]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise MissingDependency(f"pip did not install {', '.join(pins)} within {_BUILD_SECONDS // 60} minutes") from None
    if "No module named pip" in done.stderr:  # as in an environment that uv made
        raise MissingDependency(f"a sandbox needs packages, and this Python has no pip to install them: {sys.executable} -m ensurepip")
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("ERROR", "error"))]
        raise MissingDependency(f"a sandbox needs {', '.join(pins)}, which pip could not install: {(lines or ['it gave no reason'])[-1]}")
