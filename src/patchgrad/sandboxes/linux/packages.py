"""The `site-packages` of every sandbox: pytest and hypothesis at fixed versions, built once a machine, and nothing else.

The host's own packages are not visible inside, so no installed original of a repository can be read there instead of repairing it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
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
_REPORTER = Path(__file__).parents[2] / "grading_plugin" / "patchgrad_report.py"
_BUILD_SECONDS = 300


def ensure_site() -> Path:
    """The folder, built by pip at first use in `$XDG_CACHE_HOME/patchgrad`, under a lock and renamed when whole."""
    reporter = _REPORTER.read_bytes() if _REPORTER.exists() else b""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = hashlib.sha256("\n".join((*PINS, version, reporter.decode())).encode()).hexdigest()[:16]
    top = cache()
    site = top / f"site-{version}-{key}"
    if site.is_dir():
        return site
    top.mkdir(parents=True, exist_ok=True)
    with open(top / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.is_dir():
            _build(site, reporter)
    return site


def cache() -> Path:
    """Where what is made once a machine lies: `$XDG_CACHE_HOME/patchgrad`, by default in the home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "patchgrad"


def _build(site: Path, reporter: bytes) -> None:
    work = Path(tempfile.mkdtemp(dir=site.parent))
    try:
        _install(work)
        if reporter:
            (work / _REPORTER.name).write_bytes(reporter)
        shutil.rmtree(work / "bin", ignore_errors=True)
        compile_all = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(work)]
        subprocess.run(compile_all, check=False, timeout=_BUILD_SECONDS)
        for folder, names, files in os.walk(work):
            for name in (*names, *files):
                path = os.path.join(folder, name)
                os.chmod(path, 0o755 if os.path.isdir(path) else 0o644)
        work.chmod(0o755)
        work.rename(site)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _install(work: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--target", str(work), *PINS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or "pip failed").splitlines()[-1]
        raise MissingDependency(f"the sandbox needs {', '.join(PINS[:2])}, which pip could not install: {last}")
