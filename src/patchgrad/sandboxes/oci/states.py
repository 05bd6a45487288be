"""The difference of a container's `/testbed` from its image's, as entries of a snapshot, and the way back."""

from __future__ import annotations

import hashlib
import io
import posixpath
import stat
import tarfile
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from patchgrad.errors import SandboxFault
from patchgrad.sandboxes.linux import leftovers
from patchgrad.sandboxes.linux.bounds import Meter, Unkept, nameable
from patchgrad.sandboxes.linux.changes import plain_index
from patchgrad.sandboxes.oci.shell import once
from patchgrad.values import Entries

if TYPE_CHECKING:
    from docker.models.containers import Container

_ROOT = "testbed/"
_INDEX = ".git/index"
_SPARE = 1 << 20
_AROUND = r"""
shopt -s nullglob dotglob
printf '%s\0' /tmp/* /dev/shm/*
printf '\0'
for place in /proc/[0-9]*; do
words=() && mapfile -d '' words < "$place/cmdline"
case "${place##*/} ${words[*]}" in 1\ *|$$\ *|*"$1"*) ;; *) [ ${#words[@]} = 0 ] || printf '%s\0' "${words[*]}" ;; esac
done
"""
_MADE = 1  # as an engine counts kinds of changes
_DENIED, _TOO_LONG = "Permission denied", "file name too long"
Base = Mapping[str, tuple[int, str]]
"""Path below `/testbed` -> mode and SHA-256 of the content, as the image has it."""


def base(container: Container) -> Base:
    """What the image holds, read once from a container that nobody has used."""
    chunks, _ = container.get_archive("/testbed")
    return {path: (mode, _sha(content)) for path, (mode, content) in unpack(b"".join(chunks)).items()}


def changes(container: Container, before: Base, most: int) -> dict[str, tuple[int, bytes | None]]:
    """What differs: the engine names the paths that were touched, one tar brings what is there now.

    Raises `Unkept` where that would take more than `most` bytes when it is laid out, or cannot be read.
    """
    touched = [path.lstrip("/") for path in _named(container) if path.startswith("/testbed/")]
    for path in touched:
        nameable(path.removeprefix(_ROOT))
    names = b"".join(path.encode(errors="surrogateescape") + b"\0" for path in touched)
    room = 2 * most + _SPARE
    script = 'cd /; command -v tar >/dev/null || exit 127; tar -cf - --no-recursion --null --ignore-failed-read -T - | head -c "$1" >&3; :'
    told = once(container, ["bash", "-c", script, "bash", str(room)], {}, names, 120.0, 1 << 16, room) if names else None
    if told is not None and told.state != "ok":
        raise SandboxFault("the container did not say what differs in it within 120 seconds")
    if told is not None and told.exit_code == 127:
        raise SandboxFault("the container cannot say what differs in it: its image has no tar")
    if told is not None and _DENIED in told.output:
        raise Unkept("something in /testbed cannot be read")
    now = _bounded(told.report, most, room) if told is not None else {}
    entries: dict[str, tuple[int, bytes | None]] = {}
    for path in touched:
        name = path.removeprefix(_ROOT)
        if name not in now:
            entries.update({gone: (0, None) for gone in before if gone == name or gone.startswith(f"{name}/")})
            continue
        mode, content = now[name]
        old = before.get(name)
        if old is None or old != (mode, _sha(content)):
            entries[name] = (mode, content)
    return entries


def around(container: Container, shell: str) -> tuple[list[str], list[str]]:
    """What is there and in no state: files outside of `/testbed`, and the processes but that of the shell whose arguments hold `shell`."""
    told = once(container, ["bash", "-c", f"{{ {_AROUND}\n}} >&3 2>/dev/null", "bash", shell], {}, b"", 60.0, 1 << 10)
    temporary, _, running = told.report.decode(errors="surrogateescape").partition("\0\0")
    made = {str(item["Path"]) for item in container.diff() or () if item["Kind"] == _MADE}
    elsewhere = sorted(path for path in made if not path.startswith(("/testbed", "/tmp/", "/dev/")) and posixpath.dirname(path) not in made)
    names = [path for path in temporary.split("\0") if path and not leftovers.is_ours(posixpath.basename(path))]
    return [*names, *elsewhere], [words for words in running.split("\0") if words]


def _named(container: Container) -> list[str]:
    """The paths that the engine names; `Unkept` where there is one that it cannot, which lies below a folder of its own."""
    from docker.errors import APIError

    try:
        return [str(item["Path"]) for item in container.diff() or ()]
    except APIError as error:
        if _TOO_LONG in str(error):
            raise Unkept("a path in the container is longer than its engine can name") from error
        raise


def _bounded(data: bytes, most: int, room: int) -> dict[str, tuple[int, bytes]]:
    """The same as `unpack` says, of a tar that was cut at `room` bytes."""
    meter = Meter(most)
    if len(data) >= room:
        meter.file(len(data))
    return unpack(data, meter)


def unpack(data: bytes, meter: Meter | None = None) -> dict[str, tuple[int, bytes]]:
    """A tar of `testbed/` as path -> mode and content; a folder has none, a link its target. The `meter` counts what is read."""
    found: dict[str, tuple[int, bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        for member in tar:
            name = member.name.removeprefix("./").removeprefix(_ROOT).rstrip("/")
            if name in ("testbed", ""):
                continue
            if meter is not None:
                meter.name(name)
            if member.isdir():
                found[name] = (stat.S_IFDIR | member.mode & 0o7777, b"")
            elif member.issym():
                found[name] = (stat.S_IFLNK | 0o777, member.linkname.encode(errors="surrogateescape"))
            elif member.isreg() or member.islnk():
                first = found.get(member.linkname.removeprefix("./").removeprefix(_ROOT)) if member.islnk() else None
                if meter is not None:
                    meter.file(member.size if first is None else len(first[1]))
                file = tar.extractfile(member) if first is None else None
                content = first[1] if first is not None else file.read() if file is not None else b""
                found[name] = (stat.S_IFREG | member.mode & 0o7777, plain_index(content) if name == _INDEX else content)
    return found


def apply(container: Container, entries: Entries) -> None:
    """Make a pristine container into the one that `changes` was taken from."""
    gone = [path for path, (_, content) in sorted(entries.items()) if content is None]
    kept = {path: (mode, content) for path, (mode, content) in sorted(entries.items()) if content is not None}
    replaced = [path for path, (mode, _) in kept.items() if not stat.S_ISDIR(mode)]
    if gone or replaced:
        names = b"".join(path.encode(errors="surrogateescape") + b"\0" for path in (*gone, *replaced))
        once(container, ["bash", "-c", "cd /testbed && xargs -0 rm -rf --"], {}, names, 120.0, 1 << 16)
    if kept:
        container.put_archive("/testbed", pack(kept.items()))


def pack(entries: Iterable[tuple[str, tuple[int, bytes]]]) -> bytes:
    """Entries as a tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", errors="surrogateescape") as tar:
        for path, (mode, content) in entries:
            member = tarfile.TarInfo(path)
            member.mode = stat.S_IMODE(mode)
            if stat.S_ISDIR(mode):
                member.type = tarfile.DIRTYPE
            elif stat.S_ISLNK(mode):
                member.type, member.linkname = tarfile.SYMTYPE, content.decode(errors="surrogateescape")
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return stream.getvalue()


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
