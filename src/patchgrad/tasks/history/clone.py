"""A repository with its history on this machine: its commits, and the files of any of them without a work tree."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from patchgrad.errors import TaskError
from patchgrad.tasks.git import NoRepository, git, told
from patchgrad.tasks.projects.layout import LARGEST_FILE
from patchgrad.values import digest

_URL = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
_KEPT = 256 << 20
_PLAIN = {"100644", "100755"}
_COUNTED = re.compile(r"\n*(\d+|-)\t(\d+|-)\t(.+)", re.DOTALL)
_LAST_YEAR = 9998  # that a month can be added to


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; `paths` maps what it changed against its only parent to lines added and removed, with 0 for files that are no text.

    `when` is its date; a commit without one, or of a year that has five digits, has none.
    """

    sha: str
    parents: tuple[str, ...]
    when: datetime | None
    text: str
    paths: Mapping[str, int] = field(default_factory=dict)

    @property
    def day(self) -> str:
        """`2024-05-31`, or nothing where the commit has no date."""
        return self.when.strftime("%Y-%m-%d") if self.when else ""

    @property
    def lines(self) -> tuple[str, str]:
        """(subject, body)."""
        subject, _, body = self.text.strip().partition("\n")
        return subject.strip(), body.strip()


class Clone:
    """A git repository that is only read: a work tree's, or a bare one."""

    def __init__(self, folder: Path, location: str = "") -> None:
        self._folder = folder
        self.location = location or self.git("config", "--default", "", "--get", "remote.origin.url").decode(errors="replace").strip()
        self.head = self.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
        self._blobs: dict[str, bytes] = {}

    @property
    def name(self) -> str:
        """By its address, or by its folder: `owner/box.git` -> `box`."""
        return PurePosixPath((self.location or str(self._folder.absolute())).rstrip("/").removesuffix(".git").rstrip("/")).name

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git says; `TaskError` with its reason where it refuses."""
        return git(self._folder, *arguments, stdin=stdin)

    def commits(self, since: str = "", until: str = "") -> list[Commit]:
        """All that HEAD comes from, newest first; `since` and `until` are days (`2024-05-31`), both included.

        A commit without a date is in no span of days.
        """
        options = ["--no-renames", "--numstat", "--no-color", "--no-ext-diff", "--no-textconv", "--no-show-signature"]
        said = self.git("log", "-z", "--encoding=UTF-8", "--format=%H%x00%P%x00%ct%x00%B%x00", *options, self.head)
        found = _commits(said.decode("utf-8", "surrogateescape").split("\0"))
        return [commit for commit in found if (not since or commit.day >= since) and (not until or "" < commit.day <= until)]

    def tag(self, sha: str) -> str:
        """The version that the nearest tag before a commit names: `v1.2.0` -> `1.2.0`; nothing without tags."""
        try:
            return self.git("describe", "--tags", "--abbrev=0", sha).decode(errors="replace").strip().removeprefix("v")
        except TaskError:
            return ""

    def files(self, sha: str) -> dict[str, bytes]:
        """The regular files of a commit's tree that are not too large for a task, without links, submodules and unprintable names."""
        listed = self.git("ls-tree", "-r", "-z", "-l", "--full-tree", sha).decode("utf-8", "surrogateescape")
        found: dict[str, str] = {}
        for entry in listed.split("\0")[:-1]:
            about, _, path = entry.partition("\t")
            mode, _, blob, size = about.split()
            if mode in _PLAIN and int(size) <= LARGEST_FILE and path.isprintable():
                found[path] = blob
        self._read(set(found.values()))
        return {path: self._blobs[blob] for path, blob in found.items()}

    def patch(self, old: str, new: str, paths: Sequence[str]) -> str:
        """The patch of these paths from one commit to another, as `git apply` takes it; `UnicodeDecodeError` where it is no UTF-8."""
        if not paths:
            return ""
        options = ["--no-renames", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "-U3"]
        return self.git("--literal-pathspecs", "diff", *options, "--diff-algorithm=myers", old, new, "--", *sorted(paths)).decode()

    def _read(self, blobs: Collection[str]) -> None:
        """Commits that follow each other share most files: these are kept, up to a size."""
        if sum(map(len, self._blobs.values())) > _KEPT:
            self._blobs = {}
        wanted = sorted(blob for blob in blobs if blob not in self._blobs)
        said, at = self.git("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in wanted).encode()), 0
        for blob in wanted:
            head = said[at : said.index(b"\n", at)].split()
            if len(head) != 3:
                raise TaskError(f"{self._folder} lacks files of its history: clone it whole, without a filter.")
            at += len(b" ".join(head)) + 1
            self._blobs[blob] = said[at : at + int(head[2])]
            at += int(head[2]) + 1


def open_clone(source: str, cache: Path) -> Clone:
    """The history that `source` names: a work tree, a bare repository, or an address, which is cloned whole into the cache.

    `TaskError` says what is wrong with it.
    """
    folder = Path(source)
    if not folder.is_dir():
        if not _URL.match(source):
            raise TaskError(f"{source}: there is no such folder, and it is no address of a git repository.")
        return _opened(_cloned(source, cache), source, source)
    return _opened(folder, source)


def _opened(folder: Path, source: str, location: str = "") -> Clone:
    try:
        said = git(folder, "rev-parse", "--absolute-git-dir", "--is-bare-repository", "--show-prefix").decode(errors="replace").splitlines()
    except NoRepository:
        raise TaskError(f"{source}: it is no git repository, and tasks are mined from a history: name a clone or an address.") from None
    except TaskError as error:
        raise TaskError(f"{source}: {error}") from None
    if len(said) > 2 and said[2]:
        raise TaskError(f"{source}: it is a folder inside of a git repository; name the top of that one.")
    try:
        return Clone(folder, location)
    except TaskError:
        raise TaskError(f"{source}: the repository has no commits at its HEAD, so there is nothing to mine.") from None


def _cloned(url: str, cache: Path) -> Path:
    kept = cache / "clones" / digest(url)[:16]
    if kept.is_dir():
        Clone(kept).git("fetch", "--quiet", "--force", "origin", "+HEAD:refs/heads/newest")
        Clone(kept).git("symbolic-ref", "HEAD", "refs/heads/newest")
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        told(["clone", "--quiet", "--bare", url, f"{folder}/clone"], f"{url}: it cannot be cloned")
        Path(folder, "clone").rename(kept)
    return kept


def _commits(fields: Iterable[str]) -> Iterator[Commit]:
    """Four fields a commit, then one for each path that it changed: a null byte is all that no text and no name of a file can hold.

    `["<sha>", "<parent>", "1700000000", "Keep dots\\n", "\\n2\\t1\\tbox.py", ...]`
    """
    said = iter(fields)
    field = next(said, "")
    while sha := field.strip("\n"):
        parents, when, text = next(said), next(said), next(said)
        paths: dict[str, int] = {}
        for field in said:
            counts = _COUNTED.fullmatch(field)
            if counts:
                paths[counts[3]] = int(counts[1]) + int(counts[2]) if counts[1] != "-" else 0
            elif field.strip("\n"):
                break
        else:
            field = ""
        plain = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        yield Commit(sha, tuple(parents.split()), _date(when), plain, paths)


def _date(said: str) -> datetime | None:
    try:
        when = datetime.fromtimestamp(int(said), UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return when if when.year <= _LAST_YEAR else None
