"""What a package's own suite is worth: which tests can be relied on, how long they take and what they cover."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import write_whole
from patchgrad.tasks.forge.runner import Runner
from patchgrad.tasks.packages import Package
from patchgrad.values import digest

SLOW = 1.0
CONFIG = "pytest.ini"


@dataclass(frozen=True, slots=True)
class Profile:
    """`tests`: the reliable ones and their seconds; `files`: seconds of a test file with all that is in it; `broken`: no imports."""

    tests: Mapping[str, float]
    files: Mapping[str, float]
    broken: tuple[str, ...]
    cover: Mapping[str, Mapping[int, tuple[str, ...]]]

    def covering(self, path: str, first: int, last: int, earliest: int) -> set[str]:
        """The reliable tests that run one of these lines, or the nearest traced line above in the function from `earliest` on."""
        lines = self.cover.get(path, {})
        found = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        while not found and first > earliest:  # within a statement of several lines only some are traced
            first -= 1
            found = set(lines.get(first, ()))
        return found


def import_paths(package: Package) -> list[str]:
    """Where the package is imported from, if not from the top: `["src"]` for a source layout."""
    return ["src"] if all(source.startswith("src/") for source in package.sources) else []


def prepare(package: Package, files: Mapping[str, bytes], quiet: bool = False) -> dict[str, bytes]:
    """The tree with a `pytest.ini` of its own, so that plain `pytest` works in it and options of the package's cannot get in the way.

    With `quiet` it prints dots and no tracebacks, for agents with little room.
    """
    options = "-p no:cacheprovider" + " -qq --tb=no --no-summary\nconsole_output_style = classic" * quiet
    config = f"[pytest]\npythonpath = {' '.join([*import_paths(package), '.'])}\naddopts = {options}\n"
    return {**files, CONFIG: config.encode()}


async def profile(package: Package, files: Mapping[str, bytes], run: Runner, cache: Path | None = None) -> Profile:
    """Three runs, one of them traced: a test counts when it passes in each, under the same id, and takes at most a second.

    The result is kept in `cache`, since it is good for every seed. `TaskError` for a suite with nothing reliable in it.
    """
    kept = cache / f"{package.id}-{_address(files)[:12]}.json" if cache else None
    if kept and kept.exists():
        return _load(kept)
    suites = [p for p in files if package.is_test(p) and _is_suite(p)]
    sources = [p for p in files if package.is_source(p)]
    runs = [
        await run(files, suites, places=package.tests, seconds=180),
        await run(files, suites, places=package.tests, variation=1, seconds=180),
        await run(files, suites, places=package.tests, variation=2, cover=sources, seconds=540),
    ]
    if any(r.state != "ok" for r in runs):
        raise TaskError(f"The tests of {package.id} do not come to an end ({', '.join(r.state for r in runs)}): leave this package out.")
    plain = runs[:2]
    seconds = {test: min(r.seconds.get(test, 0.0) for r in plain) for test in plain[0].outcomes}
    everything = {test for r in runs for test in r.outcomes}
    shifting = {t.split("[")[0] for t in everything if any(t not in r.outcomes for r in runs)}  # ids made from an order that varies
    good = {
        t: s
        for t, s in seconds.items()
        if s <= SLOW and t.split("[")[0] not in shifting and all(r.outcomes.get(t) == "passed" for r in runs)
    }
    if not good:
        raise TaskError(f"No test of {package.id} passes three times: leave this package out.")
    spent: dict[str, float] = {}
    for test, s in seconds.items():
        spent[test.split("::")[0]] = spent.get(test.split("::")[0], 0.0) + s
    cover = {p: {line: tuple(t for t in tests if t in good) for line, tests in c.items()} for p, c in runs[2].cover.items()}
    found = Profile(good, spent, tuple(sorted(set(runs[0].broken) & set(files))), cover)
    if kept:
        _save(kept, found)
    return found


def _is_suite(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py"))


def _address(files: Mapping[str, bytes]) -> str:
    return digest(*(part for name in sorted(files) for part in (name, files[name])))


def _save(path: Path, found: Profile) -> None:
    write_whole(path, json.dumps(asdict(found)).encode())


def _load(path: Path) -> Profile:
    data = json.loads(path.read_bytes())
    cover = {p: {int(line): tuple(tests) for line, tests in lines.items()} for p, lines in data["cover"].items()}
    return Profile(data["tests"], data["files"], tuple(data["broken"]), cover)
