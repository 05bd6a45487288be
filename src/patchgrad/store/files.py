"""Writing that is either done or not: a file under another name, flushed to the disk, then renamed."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patchgrad.errors import Refuse, StoreError, one_of_many, stop

FULL = (errno.ENOSPC, errno.EDQUOT)
LITTLE = 1 << 20  # bytes of room below which a library's own error in writing a whole file is one of a full disk


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Any failure of the disk in here is one sentence; what stood in the folder before still stands."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise _full(folder) from error
        raise StoreError(f"{error.filename or folder} cannot be written: {error.strerror or error}.") from error


@contextmanager
def foreign(folder: Path) -> Iterator[None]:
    """The same for a library that has errors of its own for a full disk, as safetensors has."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if shutil.disk_usage(folder).free < LITTLE:
            raise _full(folder) from error
        raise


def _full(folder: Path) -> StoreError:
    return StoreError(f"No space is left on the disk that holds {folder}; free some, then go on with --resume.")


def sync(path: Path) -> None:
    """Wait until a file or a folder's list of names is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Replace one file as a whole; a callable writes it itself, at the path that it is given."""
    partial = path.with_name(f".{path.name}.partial")
    with writing(path.parent):
        try:
            if callable(content):
                with foreign(path.parent):
                    content(partial)
            else:
                _written(partial, os.O_TRUNC, content)
            sync(partial)
            partial.replace(path)
            sync(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def put_folder(path: Path, save: Callable[[Path], None]) -> None:
    """Replace one folder as a whole; `save` fills it under another name."""
    partial, old = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old")
    with writing(path.parent):
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            _fill(partial, save)
            if path.exists():
                path.rename(old)
            partial.rename(path)
            sync(path.parent)
        finally:
            if old.exists() and not path.exists():
                old.rename(path)
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def new_folder(path: Path, save: Callable[[Path], None]) -> bool:
    """A folder where there is none, or an empty one; false where another process was faster, whose folder stays."""
    above = next(parent for parent in path.absolute().parents if parent.exists())
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with writing(path.parent):
        partial.mkdir(parents=True)
        try:
            _fill(partial, save)
            try:
                partial.rename(path)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                return False
            for parent in path.absolute().parents:
                sync(parent)
                if parent == above:
                    break
            return True
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _fill(partial: Path, save: Callable[[Path], None]) -> None:
    """All that `save` makes is on the disk when this returns."""
    with foreign(partial.parent):
        save(partial)
    for file in [partial, *partial.rglob("*")]:
        sync(file)


def remove_folder(path: Path) -> None:
    """Delete one folder as a whole: what a kill leaves of it has a name that `recover` deletes."""
    if path.exists():
        partial = path.with_name(f".{path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        path.rename(partial)
        shutil.rmtree(partial, ignore_errors=True)


def recover(folder: Path) -> None:
    """Undo what a kill left of `put` and `put_folder`: a half-written copy goes, a copy that was moved aside comes back."""
    for left in folder.glob(".*.partial"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    for old in folder.glob(".*.old"):
        path = old.with_name(old.name.removeprefix(".").removesuffix(".old"))
        shutil.rmtree(old) if path.exists() else old.rename(path)


def append(path: Path, line: bytes) -> int:
    """Add one whole line in one write and give its offset; where that fails, the part that was written is taken back.

    The name of a new file is on the disk when this returns.
    """
    with writing(path.parent):
        offset = _written(path, os.O_APPEND, line)
        if not offset:
            sync(path.parent)
        return offset


def _written(path: Path, how: int, content: bytes) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
        return before
    finally:
        os.close(descriptor)


def lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Every whole line with its offset; a last line without its newline is still being written, so it is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)


def records(path: Path, refuse: Refuse = stop) -> Iterator[Any]:
    """Every line of a JSON-lines file as data; what is wrong with a damaged one goes to `refuse`."""
    for number, (_, line) in enumerate(lines(path), 1):
        with one_of_many(refuse):
            yield _record(path, number, line)


def _record(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is damaged at line {number}; restore it from a copy or start another run.") from error


def loads(path: Path) -> Any:
    """A whole JSON file as data."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read, so this run is damaged; start another with --run.") from error


def whole(path: Path, start: int, good: Callable[[bytes], bool]) -> int:
    """The bytes before the first line from `start` on that is torn or not `good`."""
    end = start
    for offset, line in lines(path, start):
        if not good(line):
            break
        end = offset + len(line)
    return end


def up_to(ends: Iterable[tuple[Path, int]]) -> dict[Path, int]:
    """Of files that follow each other: what comes after one that has more bytes than are whole is not whole either."""
    told, torn = dict[Path, int](), False
    for path, end in ends:
        told[path] = 0 if torn else end
        torn = torn or end < path.stat().st_size
    return told


def cut(path: Path, end: int) -> None:
    """Drop what follows so many bytes, if anything does."""
    if path.exists() and path.stat().st_size > end:
        with writing(path.parent):
            os.truncate(path, end)
