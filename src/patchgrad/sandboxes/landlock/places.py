"""Where the sandboxes of a backend lie, and what they may read: programs, libraries, a Python with pytest, nothing beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from patchgrad.errors import ConfigError, SandboxFault
from patchgrad.packages.sites import ensure_site
from patchgrad.sandboxes.folders import found, shown
from patchgrad.sandboxes.landlock.confine import covering
from patchgrad.sandboxes.linux import shell
from patchgrad.sandboxes.linux.hidden import hidden
from patchgrad.sandboxes.owners import lives, owner
from patchgrad.sandboxes.programs import ensure_programs
from patchgrad.values.places import unfit

_PREFIX = "patchgrad-landlock-"
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_LEFT_OUT = shutil.ignore_patterns("site-packages", "test", "idlelib")
_ETC = (
    "passwd",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "services",
)
_PROGRAMS = {
    "python": '#!/bin/sh\nexec {real} -s "$@"\n',
    "python3": '#!/bin/sh\nexec {real} -s "$@"\n',
    "pytest": '#!/bin/sh\nexec {real} -s -m pytest "$@"\n',
    "py.test": '#!/bin/sh\nexec {real} -s -m pytest "$@"\n',
}


class Places:
    """A folder of the backend's own, made at first use: `folder`, or a new one in the host's temporary folder.

    `folders` are those of the host's that sandboxes may read besides.
    """

    def __init__(self, folder: Path | None, folders: Sequence[str] = ()) -> None:
        self._given, self._folder, self.folders = folder, folder, shown(folders)
        self._making = threading.Lock()
        self._python = self._found = ""
        self._sites: dict[tuple[str, ...], str] = {}
        self._readable: list[str] = []

    def top(self) -> Path:
        """Where everything lies, with the programs that a sandbox finds first on its PATH."""
        with self._making:  # many may ask at once for what is not there yet
            if self._folder is None:
                for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
                    if not lives(left.name.removeprefix(_PREFIX).partition("+")[0]):
                        removed(left)
                self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{owner()}+"))
            if os.geteuid() == 0 and not _open_to_all(self._folder.parent):
                raise SandboxFault(f"{self._folder} lies in a closed folder, where the users that sandboxes of root belong to cannot go")
            if not (self._folder / "bin").is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                self._folder.chmod(0o755)
                self._python = _at_hand(Path(sys.base_prefix), self._folder, bare=sys.base_prefix != "/usr")
                self._found = _at_hand(ensure_programs().folder, self._folder)
                (self._folder / "bin").mkdir()
                for name, text in _PROGRAMS.items():
                    path = self._folder / "bin" / name
                    path.write_text(text.format(real=f"{self._python}/bin/python{_VERSION}"))
                    path.chmod(0o755)
                (self._folder / "gitconfig").write_text(shell.ETC["gitconfig"])
            return self._folder

    def look(self) -> None:
        """`ConfigError` for one of the `folders` that is not there, that holds other sandboxes, or where those of root cannot go."""
        ours = str((self._given or Path(tempfile.gettempdir())).resolve())
        for folder, place in found(self.folders).items():
            if wrong := unfit(place, (ours,)):
                raise ConfigError(f"sandbox.folders: {wrong}")
            if os.geteuid() == 0 and not all(_open_to_all(Path(path)) for path in (os.path.dirname(folder), place)):
                raise ConfigError(
                    f"sandbox.folders: {folder} lies in a closed folder, where the users that sandboxes of root belong to cannot go; "
                    "put it in an open one, such as /opt"
                )

    def site(self, packages: tuple[str, ...]) -> str:
        """The folder of pytest and these packages."""
        top = self.top()
        with self._making:
            if packages not in self._sites:
                self._sites[packages] = _at_hand(ensure_site(packages), top)
            return self._sites[packages]

    def readable(self, site: str) -> list[str]:
        """Programs, libraries and a Python with the packages of `site`, and the `folders`; nothing that is installed beside it."""
        top = self.top()
        if not self._readable:
            covered = [*hidden(), "/usr/bin", "/usr/sbin", *_packages(Path(self._python))]
            paths = covering("/usr", covered) + covering(self._python, covered)
            paths += [str(path) for path in sorted(set(ensure_programs().paths.values()))]
            paths += [path for path in ("/lib", "/lib32", "/lib64") if os.path.isdir(path) and not os.path.islink(path)]
            paths += [f"/etc/{name}" for name in _ETC]
            self._readable = [*paths, "/proc", str(top / "bin"), self._found, str(top / "gitconfig"), *self.folders]
        return [*self._readable, site]

    def environment(self, home: Path, site: str) -> dict[str, str]:
        """The variables of a sandbox at `home` with the packages of `site`."""
        ours = {name: value for name, value in shell.ENVIRONMENT.items() if name != "PATH"}
        paths = {"PATH": f"{self.top()}/bin:{self._found}", "PYTHONPATH": site, "HOME": f"{home}/tmp/home", "TMPDIR": f"{home}/tmp"}
        git = {"GIT_CONFIG_GLOBAL": f"{self.top()}/gitconfig", "GIT_CONFIG_NOSYSTEM": "1"}
        return ours | paths | git | {"PYTEST_ADDOPTS": f"-o cache_dir={home}/tmp/.pytest_cache"}

    def remove(self) -> None:
        """Takes the folder away."""
        folder, self._folder, self._readable, self._sites = self._folder, self._given, [], {}
        if folder is not None:
            removed(folder)


def removed(folder: Path) -> None:
    """Takes away a folder in which an agent worked: one that it locked, and one so deep that no function of ours that calls itself ends."""
    for command in (("rm", "-rf", "--"), ("chmod", "-R", "u+rwx", "--"), ("rm", "-rf", "--")):
        if os.path.lexists(folder):
            subprocess.run([*command, folder], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _open_to_all(folder: Path) -> bool:
    return all(above.stat().st_mode & 0o001 for above in (folder.resolve(), *folder.resolve().parents))


def _packages(prefix: Path) -> list[str]:
    """Folders below a Python's prefix that hold packages, wheels included."""
    return [str(path) for pattern in ("*-packages", "ensurepip/_bundled") for path in Path(prefix, "lib").glob(f"python3*/{pattern}")]


def _at_hand(folder: Path, top: Path, bare: bool = False) -> str:
    """A folder of programs as other users can read it: itself, or a copy without installed packages where it lies in a closed home.

    A copy too where a `bare` one is wanted and it holds any: a folder of which a part is hidden cannot be listed, and Python lists its own.
    """
    folder = folder.resolve()
    if not (bare and _packages(folder)) and (os.geteuid() != 0 or _open_to_all(folder)):
        return str(folder)
    wanted = [folder / "bin" / f"python{_VERSION}", *folder.glob("lib/libpython*"), folder / "lib" / f"python{_VERSION}"]
    for path in [path for path in wanted if path.exists()] or [folder]:
        target = top / folder.name / path.relative_to(folder)
        if path.is_dir():
            shutil.copytree(
                path,
                target,
                symlinks=True,
                ignore=shutil.ignore_patterns("site-packages", "dist-packages", "_bundled", "test", "idlelib"),
                dirs_exist_ok=True,
            )
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    return str(top / folder.name)
