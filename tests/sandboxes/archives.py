"""Image archives made on the spot: layers of plain files, and of this host's own programs, so that nothing is downloaded."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchgrad.packages.sites import ensure_site

PROGRAMS = (
    *(
        "bash",
        "sh",
        "git",
        "cat",
        "ls",
        "mkdir",
        "rm",
        "mv",
        "ln",
        "chmod",
        "head",
        "truncate",
        "tr",
        "wc",
        "sleep",
        "dirname",
        "pgrep",
        "ps",
        "env",
        "printf",
    ),
    *("touch", "xargs", "patch", "grep", "echo", "true", "pwd", "tail", "tar"),
)


def link(target: str) -> tarfile.TarInfo:
    return _member(tarfile.SYMTYPE, target)


def hard(target: str) -> tarfile.TarInfo:
    return _member(tarfile.LNKTYPE, target)


def _member(kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo()
    member.type, member.linkname, member.mode = kind, target, 0o755
    return member


FOLDER, FIFO = _member(tarfile.DIRTYPE), _member(tarfile.FIFOTYPE)
_NOT_TAKEN = (
    "test",
    "site-packages",
    "dist-packages",
    "idlelib",
    "ensurepip",
    "lib2to3",
    "tkinter",
    "distutils",
    "pydoc_data",
    "turtledemo",
)
Layer = Mapping[str, "str | bytes | Path | tarfile.TarInfo"]


def layer(files: Layer) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, what in files.items():
            if isinstance(what, Path):
                tar.add(what, name, filter=_taken)
                continue
            member = tarfile.TarInfo(name)
            if isinstance(what, tarfile.TarInfo):
                member.type, member.linkname, member.mode = what.type, what.linkname, what.mode
                tar.addfile(member)
            else:
                content = what.encode() if isinstance(what, str) else what
                member.size, member.mode, member.mtime = len(content), 0o4755, 1_000_000
                tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _taken(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A member unless nothing runs it: tests of a library's own, and code that Python compiled for its other levels of optimising."""
    return None if member.name.endswith(("/test", "/tests", ".opt-1.pyc", ".opt-2.pyc")) else member


def archive(target: Path, layers: Sequence[Layer], variables: Sequence[str] = (), docker: bool = False) -> str:
    """Writes an archive, in OCI's layout or in the older one of Docker; the digest of its manifest, or of its configuration."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, object]:
        sha = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{sha}"] = content
        return {"digest": f"sha256:{sha}", "size": len(content)}

    plain = [layer(files) for files in layers]
    ids = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in plain]
    config = json.dumps({"config": {"Env": list(variables)}, "rootfs": {"type": "layers", "diff_ids": ids}}).encode()
    if docker:
        names = [f"{number}/layer.tar" for number in range(len(plain))]
        blobs.update(zip(names, plain, strict=True), **{"config.json": config})
        blobs["manifest.json"] = json.dumps([{"Config": "config.json", "Layers": names}]).encode()
        digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    else:
        described = [blob(gzip.compress(content, 1, mtime=0)) for content in plain]
        digest = str(blob(json.dumps({"config": blob(config), "layers": described}).encode())["digest"])
        here = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        others = [{"digest": "sha256:" + "0" * 64, "platform": {"architecture": "s390x"}}]
        blobs["index.json"] = json.dumps({"manifests": [*others, {"digest": digest, "platform": {"architecture": here}}]}).encode()
    with tarfile.open(target, "w") as tar:
        for name, content in blobs.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return digest


def programs() -> Layer:
    """A file system of this host's own programs, with what they load."""
    found = [path for name in PROGRAMS if (path := shutil.which(name, path="/usr/bin:/bin"))]
    files: dict[str, str | bytes | Path | tarfile.TarInfo] = {"./": FOLDER, "usr": FOLDER}
    for name in ("bin", "lib", "lib64"):
        files[f"usr/{name}"], files[name] = FOLDER, link(f"usr/{name}")
    for path in found:
        name = path.lstrip("/")
        files[name if name.startswith("usr/") else f"usr/{name}"] = Path(os.path.realpath(path))
    return {**files, **_libraries(found)}


def interpreter() -> Layer:
    """This Python, and pytest in a folder of its own, for an image that tests: `PATH=/opt/py/bin:...`, `PYTHONPATH=/opt/pytest`."""
    version, library = f"python{sys.version_info.major}.{sys.version_info.minor}", Path(sysconfig.get_path("stdlib"))
    files: dict[str, str | bytes | Path | tarfile.TarInfo] = {"opt/py/bin/python": Path(os.path.realpath(sys.executable))}
    for path in sorted(library.iterdir()):
        if path.name not in _NOT_TAKEN and not path.name.startswith("config-"):
            files[f"opt/py/lib/{version}/{path.name}"] = path
    for path in sorted(ensure_site().iterdir()):
        if not path.name.startswith("patchgrad_") and "hypothesis" not in path.name:
            files[f"opt/pytest/{path.name}"] = path
    modules = map(str, (library / "lib-dynload").glob("*.so"))
    return {**files, **_libraries([os.path.realpath(sys.executable), *modules])}


def _libraries(programs: Sequence[str]) -> Layer:
    """What these programs load, under the names that they ask for."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    asked = {word for line in told.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":")}
    places = {name: name.lstrip("/") if name.startswith("/usr/") else f"usr{name}" for name in asked if name.startswith(("/usr/", "/lib"))}
    return {places.get(name, f"usr/lib/{os.path.basename(name)}"): Path(os.path.realpath(name)) for name in sorted(asked)}


REPOSITORY: Layer = {
    "testbed": FOLDER,
    "testbed/a.txt": "hello\n",
    "testbed/.git/HEAD": "the fix is in here\n",
    "testbed/out": link("/etc/passwd"),
}
