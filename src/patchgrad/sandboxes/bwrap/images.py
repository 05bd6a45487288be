"""Images without an engine: an OCI archive becomes a folder that a sandbox starts in, and its `/testbed` a repository.

    docker save NAME -o image.tar            or, where there is no Docker at all: skopeo copy docker://NAME oci-archive:image.tar
    image = Images().add(Path("image.tar"))

Layers are laid over each other by the rules of https://github.com/opencontainers/image-spec/blob/main/layer.md, every path resolved by the
kernel inside the new folder. What is laid out belongs to nobody in particular: owners, set-uid bits and devices are left out, and all may
be read, because the user in a sandbox is none of the image's. Histories of `/testbed` stay behind, as they do with archives.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from patchgrad.errors import MissingDependency, TaskError
from patchgrad.packages.sites import cache
from patchgrad.sandboxes.linux import system, tree

LARGEST = 64 << 30
_OPAQUE, _GONE = ".wh..wh..opq", ".wh."
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDA = "opt/miniconda3/envs/testbed/bin"  # where the images of SWE-bench and those made after them keep a repository's Python
_ZSTD = b"\x28\xb5\x2f\xfd"
_FURNITURE = ("proc", "dev", "tmp", "var/tmp", "run/cell", "testbed")
_AGENT = {"etc/passwd": "agent:x:1000:1000:agent:/tmp/home:/bin/bash\n", "etc/group": "agent:x:1000:\n", "etc/gitconfig": ""}


@dataclass(frozen=True, slots=True)
class Image:
    """An image laid out: its file system in `root`, its `/testbed` in the tar `testbed`, and the variables its programs start with."""

    digest: str
    root: Path
    testbed: Path
    environment: Mapping[str, str]


class Images:
    """The images laid out on this machine, in `folder`, by default `$XDG_CACHE_HOME/patchgrad/images`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache() / "images"
        self.folder.mkdir(parents=True, exist_ok=True)

    def find(self, digest: str) -> Image | None:
        """The image by the digest of its manifest, which registries know it by, or of its configuration, which is Docker's image id."""
        home = self.folder / _plain(digest)
        if not (home / "image.json").is_file():
            return None
        return _image(home)

    def add(self, archive: Path, expected: str = "") -> Image:
        """Lays out the image of an archive: a tar or folder in OCI's layout, or what older `docker save`s wrote.

        Raises `TaskError` where it is broken, is not the `expected` one, or has no `/testbed`; nothing of it is left then.
        """
        with _opened(archive) as content:
            manifest = _manifest(content, archive)
            if expected and expected not in manifest.digests:
                raise TaskError(f"the image in {archive} is {manifest.digests[0]}, not {expected}: fetch it again by that digest")
            found = self.find(manifest.digests[0])
            return found or self._lay_out(content, manifest, archive)

    def _lay_out(self, content: _Content, manifest: _Manifest, archive: Path) -> Image:
        work = Path(tempfile.mkdtemp(dir=self.folder, prefix="."))
        try:
            work.chmod(0o755)
            (work / "root").mkdir()
            _lay_layers(content, manifest.layers, work / "root", archive)
            testbed = work / "root" / "testbed"
            if testbed.is_symlink() or not testbed.is_dir():  # a link would lead to the host's files
                raise TaskError(f"the image in {archive} has no folder /testbed, where a task's repository is expected")
            _take_testbed(testbed, work / "testbed.tar")
            _furnish(work / "root")
            environment = _environment(manifest.environment, work / "root")
            (work / "image.json").write_text(json.dumps({"digest": manifest.digests[0], "environment": environment}))
            home = self.folder / _plain(manifest.digests[0])
            if not home.exists():  # somebody else may have been faster
                work.rename(home)
        except (tarfile.TarError, EOFError, KeyError, ValueError, OSError) as error:
            raise TaskError(f"the image in {archive} cannot be laid out: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        for other in manifest.digests[1:]:
            (self.folder / _plain(other)).unlink(missing_ok=True)
            (self.folder / _plain(other)).symlink_to(home.name)
        return _image(home)


def _image(home: Path) -> Image:
    """The image that was laid out in this folder."""
    home = home.resolve()
    told = json.loads((home / "image.json").read_text())
    return Image(told["digest"], home / "root", home / "testbed.tar", told["environment"])


def _plain(digest: str) -> str:
    """`sha256:ab12...` as a name of a folder."""
    algorithm, _, value = digest.rpartition(":")
    if algorithm not in ("", "sha256") or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise TaskError(f"{digest!r} names no image: a digest is sha256: and 64 digits of 0-9a-f")
    return value


# --- what an archive says of itself --------------------------------------------------------------


class _Content:
    """The files of an archive, by name, whether it is a tar or a folder."""

    def __init__(self, source: Path | tarfile.TarFile) -> None:
        self._source = source

    def open(self, name: str) -> BufferedReader:
        if isinstance(self._source, Path):
            return (self._source / name).open("rb")
        stream = self._source.extractfile(name)
        if stream is None:
            raise KeyError(f"{name} is no file")
        return cast(BufferedReader, stream)

    def json(self, name: str) -> Any:
        with self.open(name) as stream:
            return json.load(stream)

    def blob(self, digest: str) -> str:
        """The name of a blob whose bytes have the hash that it is named by."""
        name = f"blobs/sha256/{_plain(digest)}"
        with self.open(name) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != _plain(digest):
                raise ValueError(f"{name} has not the hash that it is named by")
        return name


@contextmanager
def _opened(archive: Path) -> Iterator[_Content]:
    if archive.is_dir():
        yield _Content(archive)
        return
    try:
        with tarfile.open(archive) as tar:
            yield _Content(tar)
    except (OSError, tarfile.TarError) as error:
        raise TaskError(f"the image archive {archive} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class _Manifest:
    """`digests`: of the manifest, where there is one, and of the configuration. `layers`: names in the archive, lowest first."""

    digests: tuple[str, ...]
    layers: tuple[str, ...]
    environment: tuple[str, ...]


def _manifest(content: _Content, archive: Path) -> _Manifest:
    try:
        try:
            chosen = _for_this_machine(content, content.json("index.json")["manifests"])
        except (KeyError, FileNotFoundError):
            return _of_docker(content)
        manifest = content.json(content.blob(chosen))
        config = manifest["config"]["digest"]
        variables = (content.json(content.blob(config)).get("config") or {}).get("Env") or ()
        return _Manifest((chosen, config), tuple(content.blob(layer["digest"]) for layer in manifest["layers"]), tuple(variables))
    except (KeyError, IndexError, TypeError, ValueError, OSError, tarfile.TarError) as error:
        raise TaskError(f"{archive} is no whole image archive (`docker save`, `skopeo copy ... oci-archive:FILE`): {error}") from error


def _for_this_machine(content: _Content, listed: Sequence[Mapping[str, Any]]) -> str:
    """The manifest's digest; an index may hold one for each kind of machine, or point to another index."""
    ours = _MACHINES.get(platform.machine(), platform.machine())
    fitting = [entry for entry in listed if entry.get("platform", {}).get("architecture", ours) == ours]
    chosen = fitting[0]
    if "index" in chosen.get("mediaType", "") or "manifest.list" in chosen.get("mediaType", ""):
        return _for_this_machine(content, content.json(content.blob(chosen["digest"]))["manifests"])
    return str(chosen["digest"])


def _of_docker(content: _Content) -> _Manifest:
    """What `docker save` wrote before it wrote OCI's layout: layers by names of its own, their hashes in the configuration."""
    (told,) = content.json("manifest.json")
    with content.open(told["Config"]) as stream:
        raw = stream.read()
    config = json.loads(raw)
    for name, promised in zip(told["Layers"], config["rootfs"]["diff_ids"], strict=True):
        with content.open(name) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != _plain(promised):
                raise ValueError(f"{name} has not the hash that its configuration promises")
    variables = (config.get("config") or {}).get("Env") or ()
    return _Manifest((f"sha256:{hashlib.sha256(raw).hexdigest()}",), tuple(told["Layers"]), tuple(variables))


# --- laying out ----------------------------------------------------------------------------------


def _lay_layers(content: _Content, layers: Sequence[str], folder: Path, archive: Path) -> None:
    root, total = os.open(folder, os.O_PATH | os.O_DIRECTORY), 0
    try:
        for name in layers:
            with content.open(name) as stream, _decompressed(stream) as plain, tarfile.open(fileobj=plain) as layer:
                members = [(_inside(member.name), member) for member in layer.getmembers()]
                total += sum(member.size for _, member in members)
                if total > LARGEST:
                    raise TaskError(f"the image in {archive} unpacks to more than {LARGEST >> 30} GiB: it is refused")
                _lay(layer, [(path, member) for path, member in members if path], root)
    finally:
        os.close(root)


@contextmanager
def _decompressed(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """tarfile knows all compressions of layers but the newest."""
    start = stream.read(4)
    stream.seek(0)
    if start != _ZSTD:
        yield stream
        return
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependency(
            "a layer of this image is compressed by zstd, which needs pyarrow: pip install 'patchgrad[train]'"
        ) from error
    with tempfile.TemporaryFile() as plain:  # a tar is read twice, and only a file goes back
        with pyarrow.input_stream(stream, compression="zstd") as source:
            shutil.copyfileobj(source, plain, 1 << 20)
        plain.seek(0)
        yield plain


def _lay(layer: tarfile.TarFile, members: Sequence[tuple[str, tarfile.TarInfo]], root: int) -> None:
    """One layer over those below it. What it takes away is of those, so that goes first."""
    for path, _ in members:
        head, name = os.path.split(path)
        if name.startswith(_GONE):
            with _above(root, head) as above:
                gone = os.listdir(above) if name == _OPAQUE else [name.removeprefix(_GONE)]
                for each in gone:
                    tree.delete(above, each)
    for path, member in members:
        head, name = os.path.split(path)
        if not name.startswith(_GONE):
            with _above(root, head) as above:
                _put(layer, member, root, above, name)


@contextmanager
def _above(root: int, head: str) -> Iterator[int]:
    tree.make_folders(root, head, tree.INSIDE)
    above = system.openat2(root, head or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=tree.INSIDE)
    try:
        yield above
    finally:
        os.close(above)


def _put(layer: tarfile.TarFile, member: tarfile.TarInfo, root: int, above: int, name: str) -> None:
    try:
        old = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
    except FileNotFoundError:
        old = 0
    if member.isdir() and stat.S_ISDIR(old):
        return
    if old:
        tree.delete(above, name)
    if member.isdir():
        os.mkdir(name, 0o755, dir_fd=above)
    elif member.issym():
        os.symlink(member.linkname, name, dir_fd=above)
    elif member.islnk():
        head, source = os.path.split(_inside(member.linkname))
        with _above(root, head) as folder:
            os.link(source, name, src_dir_fd=folder, dst_dir_fd=above, follow_symlinks=False)
    elif (stream := layer.extractfile(member)) is not None:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=above)
        with os.fdopen(file, "wb") as target:
            shutil.copyfileobj(stream, target, 1 << 20)
            target.flush()
            os.fchmod(file, 0o644 | member.mode & 0o111)
            os.utime(file, (member.mtime, member.mtime))  # compiled files are valid by the time of their source


def _inside(name: str) -> str:
    """`./usr/../bin/sh` -> `bin/sh`, and the top itself -> "": a path never leads above the top, as in a chroot."""
    parts: list[str] = []
    for part in PurePosixPath("/", name).parts[1:]:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def _take_testbed(testbed: Path, target: Path) -> None:
    with tarfile.open(target, "w") as tar:
        for name in sorted(os.listdir(testbed)):
            if name != ".git":
                tar.add(testbed / name, name)
    target.chmod(0o644)
    shutil.rmtree(testbed)


def _furnish(root: Path) -> None:
    """The places that a sandbox mounts something at, and a name for the user in it."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        for place in _FURNITURE:
            with _above(top, place):
                pass
        for path, line in _AGENT.items():
            head, name = os.path.split(path)
            with (
                _above(top, head) as above,
                os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644, dir_fd=above), "a+") as file,
            ):
                file.seek(0)
                if line and line.partition(":")[0] not in [known.partition(":")[0] for known in file]:
                    file.write(line)
    finally:
        os.close(top)


def _environment(variables: Sequence[str], root: Path) -> dict[str, str]:
    found = dict(variable.partition("=")[::2] for variable in variables)
    found.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if (root / _CONDA).is_dir():
        found["PATH"] = f"/{_CONDA}:{found['PATH']}"
    return found
