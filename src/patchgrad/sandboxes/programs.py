"""The programs that a sandbox has of its host: a list by name, so that one that is installed on the host is not found in there by chance.

    NAMES -> those of them that the host has -> copies in a folder, and what each holds

What an agent types by mistake meets the same names on every host, and a run keeps what they held. Programs that a
distribution has in another version are another content of the same name: who wants the same to the bit everywhere takes an image.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgrad.errors import MissingDependency
from patchgrad.packages.sites import cache

NAMES = frozenset(
    """
    bash dash sh rbash

    [ arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd df dir dircolors dirname
    du echo env expand expr factor false fmt fold groups head hostid id install join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv
    nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum
    sha256sum sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate
    tsort tty uname unexpand uniq unlink users vdir wc who whoami yes

    find xargs grep egrep fgrep rgrep zgrep zegrep zfgrep bzgrep xzgrep sed awk mawk gawk nawk cmp zcmp xzcmp diff zdiff xzdiff diff3 sdiff
    patch ed bc dc tree file which whereis less zless bzless xzless more zmore col colcrt colrm column hexdump hd xxd rev look ul tput tabs
    clear reset tset infocmp getopt flock setsid script logger namei rename.ul hardlink fallocate mountpoint mcookie

    tar gzip gunzip zcat uncompress bzip2 bunzip2 bzcat xz unxz xzcat lzma unlzma zip unzip zstd unzstd zstdcat cpio

    git git-shell git-receive-pack git-upload-archive git-upload-pack scalar perl make gmake cc gcc c++ g++ cpp as ld ld.bfd ld.gold gold ar
    nm objdump objcopy ranlib readelf size strings strip addr2line c++filt gprof pkg-config m4 jq rg

    ps kill pgrep pkill pidof pidwait pmap pwdx free top uptime vmstat watch w skill snice slabtop tload killall pstree ionice taskset
    prlimit renice chrt choom lscpu lsmem lsns lsipc ipcs ipcmk ipcrm setarch linux32 linux64 hostname nsenter setpriv unshare mount umount
    dmesg sysctl

    getconf getent iconv ldd locale localedef tzselect zdump ldconfig
    """.split()  # noqa: SIM905
)
"""What sandboxes have of what their host has: shells, coreutils, search and text, archives, git, a compiler, processes, the C library's."""

_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")


@dataclass(frozen=True, slots=True)
class Programs:
    """A `folder` of programs, and the first 16 digits of the SHA-256 of each by its name: `{"git": "9f86d081884c7d65", ...}`.

    `paths` are where the host has them.
    """

    folder: Path
    contents: Mapping[str, str]
    paths: Mapping[str, Path]


def ensure_programs(names: Iterable[str] = NAMES, folder: Path | None = None) -> Programs:
    """Copies of those programs that this host has, made at first use below `cache() / "programs"`, under a lock and renamed when whole.

    A link is copied as what it leads to. `MissingDependency` where there is no bash.
    """
    found = {name: path for name in sorted(names) if (path := _find(name)) is not None}
    if "bash" not in found:
        raise MissingDependency("This host has no bash in /usr/bin or /bin, which sandboxes need: install it.")
    contents = {name: _digest(path) for name, path in found.items()}
    key = hashlib.sha256("\n".join(f"{name} {digest}" for name, digest in contents.items()).encode()).hexdigest()[:16]
    top = folder or cache() / "programs"
    top.mkdir(parents=True, exist_ok=True)
    if not (top / key).is_dir():
        with open(top / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (top / key).is_dir():
                _copy(found, top / key)
    return Programs(top / key, contents, found)


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What is another program, is missing or is new: `changed({"git": "1", "w": "1"}, {"git": "2"})` is "git differs; w is missing"."""
    gone, new = sorted(before.keys() - now.keys()), sorted(now.keys() - before.keys())
    other = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    found = ((other, "differs", "differ"), (gone, "is missing", "are missing"), (new, "is new", "are new"))
    return "; ".join(f"{_some(names)} {one if len(names) == 1 else many}" for names, one, many in found if names)


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _find(name: str) -> Path | None:
    paths = (Path(folder, name) for folder in _FOLDERS)
    return next((path.resolve() for path in paths if path.is_file() and os.access(path, os.X_OK | os.R_OK)), None)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _copy(found: Mapping[str, Path], target: Path) -> None:
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix="."))
    try:
        first: dict[Path, Path] = {}
        for name, path in found.items():
            if path in first:
                os.link(first[path], work / name)
            else:
                first[path] = Path(shutil.copyfile(path, work / name))
                first[path].chmod(0o755)
        work.chmod(0o755)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
