"""Real packages to make tasks from: pinned source distributions, fetched with the user's own package client.

Each one needs nothing but pytest to run its tests. The split is by package, look-alikes on one side (`toolz`, `funcy` and
`boltons` share ideas and names), so that a held-out task is code that no training task has shown.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import unpack, write_whole


@dataclass(frozen=True, slots=True)
class Package:
    """One pinned source distribution and where its parts lie.

    `sources` and `tests` are paths below the distribution's top folder: a file, or a folder ending with a slash.
    """

    name: str
    version: str
    sha256: str
    licence: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    split: Literal["train", "held_out"]

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    def is_source(self, path: str) -> bool:
        """May this file carry a bug?"""
        return path.endswith(".py") and not self.is_test(path) and _below(path, self.sources)

    def is_test(self, path: str) -> bool:
        """Does this file judge? `conftest.py` and test data count: an agent that may edit them could pass without a repair."""
        return _below(path, self.tests) or PurePosixPath(path).name == "conftest.py"


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or (place.endswith("/") and path.startswith(place)) for place in places)


PACKAGES: tuple[Package, ...] = (
    Package(
        "parse",
        "1.22.4",
        "706d458feed5a81b02768d3156e8070baf6cee7d150a3a3c0cd43101a875c3b5",
        "MIT",
        ("parse/",),
        ("tests/",),
        "train",
    ),
    Package(
        "inflection",
        "0.5.1",
        "1a29730d366e996aaacffb2f1f1cb9593dc38e2ddd30c91250c6dde09ea9b417",
        "MIT",
        ("inflection/",),
        ("test_inflection.py",),
        "train",
    ),
    Package(
        "xmltodict",
        "1.0.4",
        "6d94c9f834dd9e44514162799d344d815a3a4faec913717a9ecbfa5be1bb8e61",
        "MIT",
        ("xmltodict.py",),
        ("tests/",),
        "train",
    ),
    Package(
        "toolz",
        "1.0.0",
        "2c86e3d9a04798ac556793bced838816296a2f085017664e4995cb40a1047a02",
        "BSD-3-Clause",
        ("toolz/", "tlz/"),
        ("toolz/tests/", "toolz/sandbox/tests/"),
        "train",
    ),
    Package(
        "funcy",
        "2.1",
        "8979feb3de7120afd1d00e5a8eae810c1942e4bfbc91697151e9ee1e49f79284",
        "BSD-3-Clause",
        ("funcy/",),
        ("tests/",),
        "train",
    ),
    Package(
        "boltons",
        "26.2.0",
        "d39cfd15c1a1c3bd4d705c82252fa9edb8e4f5e8cc039f8e39afac7b1b47e92c",
        "BSD-3-Clause",
        ("boltons/",),
        ("tests/",),
        "train",
    ),
    Package(
        "cachetools",
        "8.0.0",
        "5ed01bd676800d51f0025605e4fd8ad0891550513e7b0a4c3da478463764e5c3",
        "MIT",
        ("src/cachetools/",),
        ("tests/",),
        "train",
    ),
    Package(
        "tabulate",
        "0.10.0",
        "e2cfde8f79420f6deeffdeda9aaec3b6bc5abce947655d17ac662b126e48a60d",
        "MIT",
        ("tabulate/",),
        ("test/",),
        "train",
    ),
    Package(
        "isodate",
        "0.7.2",
        "4cd1aa0f43ca76f4a6c6c0292a85f40b35ec2e43e315b59f06e6d32171a953e6",
        "BSD-3-Clause",
        ("src/isodate/",),
        ("tests/",),
        "held_out",
    ),
    Package(
        "semver",
        "3.1.1",
        "149b26cabada6f63212f97e94505d21578cb1d280cf714827f328d5e70765fea",
        "BSD-3-Clause",
        ("src/semver/",),
        ("tests/",),
        "held_out",
    ),
    Package(
        "sqlparse",
        "0.6.1",
        "ca722573f848ff2d30e40ea30f53a104b7dea7635ea9285891263eb2c58fb6e7",
        "BSD-3-Clause",
        ("sqlparse/",),
        ("tests/",),
        "held_out",
    ),
)


def fetch(package: Package, cache: Path) -> dict[str, bytes]:
    """Sources, tests and licence of one package, from the cache or else from the package index that `pip` is configured to use.

    Nothing else of the distribution is kept: build folders and compiled files can hold a second, unbroken copy of the code.
    `TaskError` when the index does not answer, or answers with other bytes than those pinned.
    """
    kept = cache / "sdists" / f"{package.sha256}.tar.gz"
    if not kept.exists():
        write_whole(kept, _download(package))
    data = kept.read_bytes()
    if hashlib.sha256(data).hexdigest() != package.sha256:
        raise TaskError(f"{kept} is not the pinned {package.id}: delete it and fetch again.")
    files = {}
    for name, content in unpack(data).items():
        path = str(PurePosixPath(*PurePosixPath(name).parts[1:]))
        if _belongs(package, path):
            files[path] = content
    return files


def _belongs(package: Package, path: str) -> bool:
    parts = PurePosixPath(path).parts
    if "__pycache__" in parts or path.endswith((".pyc", ".pyo", ".so", ".pyd")) or any(p.endswith(".egg-info") for p in parts):
        return False
    licence = len(parts) == 1 and parts[0].upper().startswith(("LICENSE", "LICENCE", "COPYING", "AUTHORS"))
    return licence or _below(path, package.sources) or _below(path, package.tests)


def _download(package: Package) -> bytes:
    pinned = f"{package.name}=={package.version}"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--dest",
            folder,
            pinned,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            error = done.stderr
        except subprocess.TimeoutExpired:
            error = "no answer within ten minutes"
        found = list(Path(folder).iterdir())
        if len(found) != 1:
            reason = [line for line in error.splitlines() if line.strip() and not line.startswith("WARNING")]
            raise TaskError(f"The source of {package.id} could not be fetched ({' '.join(reason[-1:]) or 'pip gave no reason'}).")
        data = found[0].read_bytes()
    if hashlib.sha256(data).hexdigest() != package.sha256:
        raise TaskError(f"The source of {package.id} from your package index is not the pinned one: its SHA-256 differs.")
    return data
