"""What is to be repaired, and how it is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from patchgrad.values.arrays import digest


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Seconds are per command; bytes are totals."""

    command_seconds: float = 20.0
    test_seconds: float = 60.0
    memory: int = 1 << 30
    disk: int = 256 << 20
    processes: int = 128
    output: int = 16_384


@dataclass(frozen=True, slots=True)
class Repository:
    """The code under repair, by content.

    `archive`: `location` is a tar file (plain or gzip) and `digest` its SHA-256; `git`: a repository and a commit id;
    `image`: an OCI name and its digest. `patch` is laid over that before the first commit: a planted bug, say, so that many tasks
    share one archive.
    """

    kind: Literal["archive", "git", "image"]
    location: str
    digest: str
    patch: str = ""


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A test file that the agent never sees; the grader writes it over whatever the agent left at `path`."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Checks:
    """How a submission is judged. Test ids are pytest node ids (`tests/test_a.py::test_b[1]`).

    Every path under `protected` is put back to its state in the repository, `files` are written and `patch` is applied, before `command`
    runs. `parser` is `report`, our own plugin of pytest, or the name of a reader of logs for commands that are none of pytest's.
    `strict` says that every expected test was seen to pass with the repair, so that nothing else will do (see `TestOutcome.satisfied`).
    """

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    files: tuple[HiddenFile, ...] = ()
    protected: tuple[str, ...] = ()
    command: tuple[str, ...] = ("pytest",)
    parser: str = "report"
    patch: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: a repository with a bug, words that describe it, and hidden tests that decide.

    `packages` are the distributions, pinned (`attrs==26.1.0`), that its Python has beside pytest; `setup` runs before the first commit.
    """

    id: str
    instruction: str
    repository: Repository
    checks: Checks
    packages: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    limits: Limits = Limits()
    tags: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """The content hash of everything that can change a verdict; `tags` cannot."""
        content = asdict(self)
        del content["tags"]
        content["repository"].pop("location")
        return digest(json.dumps(content, sort_keys=True))

    def environment_digest(self) -> str:
        """The content hash of what an agent's sandbox is made of; tasks with other words and other hidden tests may have the same."""
        repository, limits = self.repository, self.limits
        code = (repository.kind, repository.digest or repository.location, repository.patch)
        content = (*code, self.packages, self.setup, asdict(limits))
        return digest(json.dumps(content, sort_keys=True))


def root_address(task: Task, attempt: str) -> str:
    """The address before the first turn: the chain of an attempt names its task and itself."""
    return root_of(task.digest(), attempt)


def root_of(task: str, attempt: str) -> str:
    """The same of a task that is known by its digest."""
    return digest("genesis", task, attempt)
