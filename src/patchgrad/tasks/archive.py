"""A repository as one tar file, named by its content: the same files always give the same bytes.

repository = store(folder, pack({"box.py": b"def area(): ..."}))
open_archive(repository)["box.py"]
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from patchgrad.errors import TaskError
from patchgrad.values import Repository

LARGEST = 256 << 20


def pack(files: Mapping[str, bytes]) -> bytes:
    """A plain tar: sorted names, mode 644, no owner, no time. `TaskError` for a name that leaves the tree."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(_inside(name))
            member.size, member.mode = len(files[name]), 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    return buffer.getvalue()


def unpack(data: bytes, links: bool = False, largest: int = LARGEST) -> dict[str, bytes]:
    """The regular files of a plain or compressed tar.

    `TaskError` for what could reach outside the tree or is no file: absolute names, `..`, links (which are passed over where they are said
    to be usual), devices; and for more than the `largest`, so that a small file cannot fill the disk.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
            for member in tar:
                name = _inside(member.name)
                if member.isdir() or (links and (member.issym() or member.islnk())):
                    continue
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None:
                    raise TaskError(f"The archive holds {name!r}, which is a link or a device: only regular files are accepted.")
                total += member.size
                if total > largest:
                    raise TaskError(f"The archive unpacks to more than {largest >> 20} MiB: it is refused.")
                files[name] = stream.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TaskError(f"The archive is no readable tar file ({error}): fetch or make it again.") from error
    return files


def unzip(data: bytes, largest: int = LARGEST) -> dict[str, bytes]:
    """The files of a zip, under the same conditions as those of a tar."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as zipped:
            members = [member for member in zipped.infolist() if not member.is_dir()]
            if sum(member.file_size for member in members) > largest:
                raise TaskError(f"The archive unpacks to more than {largest >> 20} MiB: it is refused.")
            return {_inside(member.filename): zipped.read(member) for member in members}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise TaskError(f"The archive is no readable zip file ({error}): fetch or make it again.") from error


def digest(data: bytes) -> str:
    """SHA-256 of the archive's bytes: what `Repository.digest` holds."""
    return hashlib.sha256(data).hexdigest()


def store(folder: Path, data: bytes) -> Repository:
    """Write `folder/<sha256>.tar` unless it is there, whole or not at all."""
    sha = digest(data)
    target = folder / f"{sha}.tar"
    if not target.exists():
        write_whole(target, data)
    return Repository("archive", str(target), sha)


def open_archive(repository: Repository) -> dict[str, bytes]:
    """The files of an archive whose bytes have the promised hash; `TaskError` when it is missing or is another one."""
    path = Path(repository.location)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise TaskError(f"The archive {path} is no regular file: point the task at a tar file.")
        data = path.read_bytes()
    except OSError as error:
        raise TaskError(f"The archive {path} cannot be read ({error.strerror}): make the task set again or move it back.") from error
    if digest(data) != repository.digest:
        raise TaskError(f"The archive {path} has not the hash that its task promises: make the task set again.")
    return unpack(data)


def write_whole(target: Path, data: bytes) -> None:
    """Write beside the target, then rename: a reader, or a second writer, never sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)  # a sandbox may read it as another user
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise TaskError(f"The archive holds {name!r}, a name outside its tree: it is refused.")
    return str(path)
