"""From the words of a user to a project: `toolz==1.0.0`, `./my-package`, `https://host/owner/name.git`."""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from patchgrad.errors import TaskError
from patchgrad.packages.files import source_distribution
from patchgrad.packages.sites import PINS, distribution
from patchgrad.tasks.archive import unpack, unzip
from patchgrad.tasks.git import git, told
from patchgrad.tasks.projects import metadata, roots
from patchgrad.tasks.projects.layout import belonging, modules_of, suites_of, tests_of, twins
from patchgrad.tasks.projects.project import Project, below, is_suite
from patchgrad.values import digest

_URL = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:|.*\.git/?$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9.!+_-]+)?")
_MOST_FILES = 30_000


@dataclass(frozen=True, slots=True)
class Found:
    """A repository's files and where they were found."""

    kind: Literal["sdist", "folder", "git"]
    address: str
    name: str
    version: str
    location: str
    files: Mapping[str, bytes]


def open_project(source: str, cache: Path, sha256: str = "") -> tuple[Project, dict[str, bytes]]:
    """The project that `source` names, and those of its files that belong into a task.

    A folder that is a clean git work tree counts as the commit it is at; of one that is not clean, what git does not ignore is taken.
    `TaskError` says what is missing: the thing itself, tests, or code.
    """
    try:
        return project_of(find(source, cache, sha256))
    except TaskError as error:
        raise TaskError(f"{source}: {error}") from error


def find(source: str, cache: Path, sha256: str = "") -> Found:
    """The files behind the words."""
    if Path(source).is_dir():
        return from_folder(Path(source))
    if _URL.match(source):
        return _cloned(source)
    if _NAME.fullmatch(source):
        return _distributed(source, cache, sha256)
    raise TaskError("there is no such folder, and it is no package (NAME or NAME==VERSION) and no address of a git repository.")


def from_folder(folder: Path, location: str = "", most: int = _MOST_FILES) -> Found:
    """A folder as it lies there, or the commit that it is a clean work tree of; `TaskError` for more than the `most` files."""
    if not (folder / ".git").exists():
        paths = [str(path.relative_to(folder)) for path in folder.rglob("*")]
        files = _read(folder, paths, most)
        return Found(
            "folder", digest(*(part for name in sorted(files) for part in (name, files[name]))), folder.resolve().name, "", "", files
        )
    listed = _said(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    files = _read(folder, [path for path in listed if path], most)
    if _said(folder, "status", "--porcelain").strip():
        return Found(
            "folder", digest(*(part for name in sorted(files) for part in (name, files[name]))), folder.resolve().name, "", "", files
        )
    commit = _said(folder, "rev-parse", "HEAD").strip()
    origin = location or _said(folder, "config", "--default", "", "--get", "remote.origin.url").strip()
    name = PurePosixPath(origin.rstrip("/").removesuffix(".git")).name or folder.resolve().name
    return Found("git", commit, name, commit[:10], origin, files)


def _said(folder: Path, *arguments: str) -> str:
    return git(folder, *arguments).decode("utf-8", "surrogateescape")


def _read(folder: Path, paths: list[str], most: int) -> dict[str, bytes]:
    there = {path: folder / path for path in belonging(dict.fromkeys(paths, b""))}
    if len(there) > most:
        raise TaskError(f"it has {len(there)} files, and more than {most} are too many to make tasks from; name a part of it.")
    regular = {path: file for path, file in there.items() if file.is_file() and not file.is_symlink() and file.stat().st_size <= 1 << 20}
    return {path: file.read_bytes() for path, file in regular.items()}


def _cloned(url: str) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        told(["clone", "--quiet", "--depth", "1", "--no-tags", url, f"{folder}/clone"], "it cannot be cloned")
        return from_folder(Path(folder, "clone"), url)


def _distributed(requirement: str, cache: Path, sha256: str) -> Found:
    name, data = source_distribution(requirement, cache, sha256)
    files = unzip(data) if name.endswith(".zip") else unpack(data, links=True)
    inside = {str(PurePosixPath(*PurePosixPath(path).parts[1:])): content for path, content in files.items()}
    asked, _, version = requirement.partition("==")
    return Found("sdist", hashlib.sha256(data).hexdigest(), asked, version, "", inside)


def project_of(found: Found) -> tuple[Project, dict[str, bytes]]:
    """What these files are as a project, and those of them that belong into a task, with the version files that a build would write."""
    files = belonging(found.files)
    said = metadata.read(found.files)
    name = distribution(said.name or found.name)
    version = re.sub(r"[^A-Za-z0-9.!+_]+", "-", said.version or found.version or "0")  # it becomes a part of paths
    if name in {distribution(pin) for pin in PINS}:
        raise TaskError(f"{name} is part of what every sandbox runs tests with, so its original could be read there: it cannot be used.")
    suites = suites_of(files, said.suites)
    tests = tests_of(files, suites)
    parts = _parts(files, said, suites, tests)
    files |= {path: text for path, text in _version_files(files, version).items() if path not in files}
    project = Project(
        name,
        version if found.kind != "git" or version == found.version else f"{version}+{found.address[:8]}",
        found.kind,
        found.address,
        said.licence,
        parts.sources,
        tests,
        parts.paths,
        parts.requires,
        parts.extras,
        entry_points=said.entry_points,
        suites=suites,
        pytest=said.pytest,
        location=found.location,
        import_mode=parts.import_mode,
    )
    return project, files


@dataclass(frozen=True, slots=True)
class _Parts:
    """Where a repository's modules lie and what they need, those of the projects in it included."""

    sources: tuple[str, ...]
    paths: tuple[str, ...]
    requires: tuple[str, ...]
    extras: tuple[str, ...]
    import_mode: str


def _parts(files: Mapping[str, bytes], said: metadata.Metadata, suites: tuple[str, ...], tests: tuple[str, ...]) -> _Parts:
    """What is stated comes first, then what is usual, then what the tests' imports show.

    A folder that holds tests need not be stated in pytest's usual import mode; another mode is kept where files of one name need it. No
    project of the repository is asked of a package index: one of its name there would be somebody else's.
    """
    held = [path for path in files if below(path, tests) and is_suite(path, suites)]
    mode = said.import_mode if twins(files, held) else ""
    usual = set() if mode else {path.rpartition("/")[0] for path in held}
    named = tuple(path for path in roots.inside([*said.paths, *said.roots], files) if path not in usual)
    _, paths = modules_of(files, tests, named)
    paths = (*paths, *roots.shown(files, tests, paths))
    inner = {folder: _metadata_below(folder, files) for folder in roots.projects(paths, files)}
    theirs = [path for folder, one in inner.items() for path in roots.inside(one.paths, files, folder) if path not in usual]
    sources, paths = modules_of(files, tests, tuple(dict.fromkeys([*paths, *theirs])))
    own = {distribution(_metadata_below(folder, files).name) for folder in roots.every_project(files) if not below(f"{folder}/", tests)}
    needed = [said, *inner.values()]
    return _Parts(
        sources,
        paths,
        tuple(dict.fromkeys(r for one in needed for r in one.requires if distribution(r) not in own)),
        tuple(dict.fromkeys(r for one in needed for r in one.extras if distribution(r) not in own)),
        mode,
    )


def _metadata_below(folder: str, files: Mapping[str, bytes]) -> metadata.Metadata:
    return metadata.read({path.removeprefix(f"{folder}/"): content for path, content in files.items() if path.startswith(f"{folder}/")})


def _version_files(files: Mapping[str, bytes], version: str) -> dict[str, bytes]:
    """The modules that a build would write the version into, where the repository names them."""
    try:
        tool = tomllib.loads(files.get("pyproject.toml", b"").decode("utf-8-sig", errors="replace")).get("tool", {})
    except tomllib.TOMLDecodeError:
        return {}
    scm, hatch = tool.get("setuptools_scm", {}), tool.get("hatch", {}).get("build", {}).get("hooks", {}).get("vcs", {})
    places = [
        scm.get("write_to"),
        scm.get("version_file"),
        hatch.get("version-file"),
        tool.get("pdm", {}).get("version", {}).get("write_to"),
    ]
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    text = f'__version__ = version = "{version}"\n__version_tuple__ = version_tuple = {numbers!r}\n'
    named = [place for place in places if isinstance(place, str) and place.endswith(".py")]
    return {place: text.encode() for place in named if not place.startswith("/") and ".." not in PurePosixPath(place).parts}
