"""Making tasks, measured: valid ones per CPU-minute, screened and confirmed, and `swesmith`'s generators on the same packages.

    python benchmarks/tasks/making.py [--packages toolz,parse] [--candidates 28] [--peer-packages 8] [--no-peer] [--keep FILE] [--json-only]

Seconds are of CPU: of this process, of the runners' processes and of all their runs. A package is furnished, profiled and its candidates
listed once, which is told apart; then its first candidates, the families in their turns, are screened, and in a second pass confirmed and
written. Each pass starts with nothing warm: the start of its runner, the first compilation of the package and what becomes of candidates
that run for ever count. With `--keep` what was measured is kept in a file, and a later call goes on with the other packages.

`swesmith` is installed in an environment of its own, below the cache. Its modifiers run there on the same files; a number of what each side
proposes, drawn evenly, is then judged by one function here. A table, and JSON last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library import records
from benchmarks.library.command import parser, tell
from benchmarks.library.peers import Peer

from patchgrad.packages.sites import cache, ensure_site
from patchgrad.tasks.forge.candidates import Candidate, single
from patchgrad.tasks.forge.emit import emit
from patchgrad.tasks.forge.profile import Profile, profile
from patchgrad.tasks.forge.trial import MOST_BROKEN, Shop, attempt, plant, screen
from patchgrad.tasks.making import cpu_seconds
from patchgrad.tasks.mutations import FAMILIES, mutants
from patchgrad.tasks.projects.catalogue import CATALOGUE, Pinned
from patchgrad.tasks.projects.furnish import furnish, prepare
from patchgrad.tasks.projects.source import open_project
from patchgrad.tasks.running import LocalRunner, Run
from patchgrad.tasks.sets import unified
from patchgrad.tasks.sources import text_of

HERE = Path(__file__).resolve().parent
PACKAGES = (
    *CATALOGUE,
    Pinned("itsdangerous==2.2.0", "e0050c0b7da1eea53ffaf149c0cfbb5c6e2e2b69c4bef22c81fa6eb73e5f6173"),
    Pinned("python-slugify==9.2.0", "cee32948083476013804de1667724fb1362dacb71e47b1d5d92adf8db6ee3298"),
    Pinned("markupsafe==3.0.4", "2e9ad7dd851bf45fab9f75cbff4cb493fee9979e8d8c7c9c3ee119022518edd6"),
    Pinned("jmespath==1.1.0", "472c87d80f36026ae83c6ddd0f1d05d4e510134ed462851fd5f754c8c3cbb88d"),
    Pinned("natsort==8.4.0", "45312c4a0e5507593da193dedd04abb1469253b601ecaf63445ad80f0a1ea581"),
    Pinned("tinydb==4.9.0", "6928b1fa785186bda7952a0ba05aaeedc883ede565ca9c7d608de44e5e75de70"),
    Pinned("dpath==2.2.0", "34f7e630dc55ea3f219e555726f5da4b4b25f2200319c8e6902c394258dd6a3e"),
    Pinned("glom==25.12.0", "1ae7da88be3693df40ad27bdf57a765a55c075c86c971bcddd67927403eb0069"),
    Pinned("pyrsistent==0.20.0", "4c48f78f62ab596c679086084d0dd13254ae4f3d6c72a83ffdf5ebdef8f265a4"),
    Pinned("more-itertools==11.2.1", "cbf08fd0af284dc69718b9b76a8e6203df624d70209ea511e4219d350c856f63"),
)
GRAMMARS = ("c", "cpp", "c-sharp", "go", "java", "javascript", "php", "ruby", "rust", "typescript")
NEEDED = ("libcst==1.9.0", "astor==0.8.1", "python-dotenv==1.2.4", "tree-sitter==0.26.1", *(f"tree-sitter-{name}" for name in GRAMMARS))
SWESMITH = Peer("swesmith", NEEDED, alone=("swesmith==0.0.9",))
WANTED = {"screened": 75.0, "confirmed": 15.0}
VARIATIONS = 5
_PATCHED = 300
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """A package ready to be worked on, and what that cost."""

    name: str
    shop: Shop
    site: Path
    setup: Mapping[str, float]
    candidates: Sequence[Candidate]


class Watched:
    """A runner of one measurement's own, which counts its runs and the seconds inside of tests."""

    def __init__(self, site: Path) -> None:
        self._run = LocalRunner(site)
        self.runs, self.inside = 0, 0.0

    async def __call__(self, files: Mapping[str, bytes], tests: Sequence[str], **wishes: Any) -> Run:
        run = await self._run(files, tests, **wishes)
        self.runs += 1
        self.inside += sum(run.seconds.values())
        return run

    def close(self) -> None:
        self._run.close()


def so_far() -> float:
    """CPU seconds, those of children that still run and of what they have waited for too (in steps of a clock tick)."""
    ticks, mine = 0, str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if told[1] == mine:
            ticks += sum(map(int, told[11:15]))
    return cpu_seconds() + ticks / os.sysconf("SC_CLK_TCK")


async def ready(pinned: Pinned, count: int) -> Bench:
    """The package with what its tests need, which of them are reliable, and its first candidates."""
    start, runners = so_far(), list[LocalRunner]()
    setup: dict[str, float] = {}

    def runner(site: Path) -> LocalRunner:
        runners.append(LocalRunner(site))
        return runners[-1]

    def lap(name: str) -> None:
        setup[name] = round(so_far() - start - sum(setup.values()), 3)

    try:
        project, files = open_project(pinned.requirement, cache(), pinned.sha256)
        project = (await furnish(project, files, runner)).project
        lap("furnish")
        complete, site = prepare(project, files), ensure_site(project.packages)
        known = await profile(project, complete, runner(site))
        lap("profile")
        tree = {path: content for path, content in complete.items() if path not in known.broken}
        candidates = list(islice(single(project, tree, known, 0, tuple(FAMILIES)), count))
        lap("list")
    finally:
        for one in runners:
            one.close()
    shop = Shop(project, tree, known, runners[-1], 0, VARIATIONS)
    return Bench(pinned.requirement.partition("==")[0], shop, site, setup, candidates)


async def measured(bench: Bench, fate: Callable[[Shop, Candidate], Awaitable[str]]) -> Row:
    """One pass over the candidates with a runner of its own: how many are valid, and what all of them cost."""
    start, mine = cpu_seconds(), time.process_time()
    run = Watched(bench.site)
    shop = replace(bench.shop, run=run)
    fates: Counter[str] = Counter()
    spent: dict[str, float] = defaultdict(float)
    for candidate in bench.candidates:
        before = so_far()
        word = await fate(shop, candidate)
        fates[word] += 1
        spent[word] += so_far() - before
    run.close()
    cpu = cpu_seconds() - start
    return {
        "candidates": len(bench.candidates),
        "valid": fates["valid"],
        "cpu": round(cpu, 3),
        "per_minute": round(60 * fates["valid"] / cpu, 1),
        "fates": dict(fates.most_common()),
        "cpu_by_fate": {word: round(seconds, 2) for word, seconds in spent.items()},
        "own_cpu": round(time.process_time() - mine, 3),
        "runs": run.runs,
        "inside_tests": round(run.inside, 3),
    }


async def screened(shop: Shop, candidate: Candidate) -> str:
    """Planted, and noticed by the tests that run it?"""
    planted = plant(shop.files, candidate)
    if planted is None:
        return "no change"
    found = await screen(shop, candidate, planted[1])
    return found if isinstance(found, str) else "valid"


async def confirmed(shop: Shop, candidate: Candidate, archives: Path) -> str:
    """A task, after five runs of all reliable tests?"""
    bug = await attempt(shop, candidate)
    member = bug if isinstance(bug, str) else emit(shop, bug, archives)
    return member if isinstance(member, str) else "valid"


async def ours(bench: Bench, folder: Path) -> Row:
    """Both passes."""
    known = bench.shop.profile
    return {
        "tests": len(known.tests),
        "suite_seconds": round(sum(known.tests.values()), 3),
        "setup": dict(bench.setup),
        "screened": await measured(bench, screened),
        "confirmed": await measured(bench, lambda shop, candidate: confirmed(shop, candidate, folder / "archives")),
    }


# --- the peer ------------------------------------------------------------------------------------


def theirs(files: Mapping[str, str], count: int, folder: Path) -> tuple[Row, list[tuple[str, bytes]]]:
    """What the peer proposes for these files: how many at what cost, and as many as wanted of them, drawn evenly."""
    for path, text in files.items():
        (folder / "peer" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "peer" / path).write_text(text)
    told = SWESMITH.answer(HERE / "making_peer.py", folder / "peer", str(count))
    return _rates(told["count"], told["rewriting"], told["patches"]), [(path, text.encode()) for path, text in told["drawn"]]


def proposed(files: Mapping[str, str], count: int) -> tuple[Row, list[tuple[str, bytes]]]:
    """The same of ours: every place where a bug fits, covered or not. The cost of patches is that of some, times the number of all."""
    start = time.process_time()
    found = [(path, mutant) for path, text in files.items() for mutant in mutants(text)]
    rewriting = time.process_time() - start
    random.Random(24).shuffle(found)
    start = time.process_time()
    for path, mutant in found[:_PATCHED]:
        unified(path, files[path], mutant.source)
    patches = (time.process_time() - start) * len(found) / max(1, len(found[:_PATCHED]))
    return _rates(len(found), rewriting, patches), [(path, mutant.source.encode()) for path, mutant in found[:count]]


def _rates(count: int, rewriting: float, patches: float) -> Row:
    return {
        "proposed": count,
        "rewriting_cpu": round(rewriting, 3),
        "patches_cpu": round(patches, 3),
        "proposed_per_second": round(count / rewriting, 1),
        "proposed_per_second_with_patch": round(count / (rewriting + patches), 1),
    }


async def judged(bench: Bench, drawn: Sequence[tuple[str, bytes]]) -> Row:
    """How many of these are valid, by five runs of all reliable tests; a runner of its own."""
    start, run = cpu_seconds(), Watched(bench.site)
    fates = Counter([await verdict(bench.shop, run, {**bench.shop.files, path: content}) for path, content in drawn])
    run.close()
    cpu = cpu_seconds() - start
    return {"judged": len(drawn), "valid": fates["valid"], "cpu": round(cpu, 3), "fates": dict(fates.most_common())}


async def verdict(shop: Shop, run: Watched, files: Mapping[str, bytes]) -> str:
    """`valid` where each of five runs, all in other orders, breaks the same tests, at most fifty and at most half; or why not."""
    known: Profile = shop.profile
    tests, seen = sorted(known.tests), []
    for variation in range(VARIATIONS):
        done = await run(files, tests, places=shop.project.tests, variation=variation, seconds=5 + 5 * sum(known.tests.values()))
        if done.state != "ok":
            return done.state
        if done.broken or any(test not in done.outcomes for test in tests):
            return "does not import"
        seen.append([test for test in tests if done.outcomes[test] not in ("passed", "skipped")])
        if not 1 <= len(seen[0]) <= min(MOST_BROKEN, len(tests) // 2):
            return "breaks too much" if seen[0] else "survived"
        if seen[-1] != seen[0]:
            return "unstable"
    return "valid"


async def against(bench: Bench, count: int, folder: Path) -> Row:
    """Both sides' proposals for the files whose lines are traced, and ours as the forge tries them."""
    texts = {path: text_of(bench.shop.files[path]) for path in sorted(bench.shop.profile.cover)}
    found = {}
    for side in ("swesmith", "patchgrad"):
        rates, drawn = theirs(texts, count, folder) if side == "swesmith" else proposed(texts, count)
        found[side] = {**rates, **await judged(bench, drawn)}
    planted = [(c.edits[0][0], plant(bench.shop.files, c)) for c in bench.candidates[:count]]
    found["as tried"] = await judged(bench, [(path, made[1][path]) for path, made in planted if made])
    return found


# --- telling -------------------------------------------------------------------------------------


def summed(rows: Sequence[Row], figure: str) -> Row:
    """One pass over all packages: the sums, and the spread of the rates."""
    passes = [row[figure] for row in rows]
    total = {name: round(sum(one[name] for one in passes), 2) for name in ("candidates", "valid", "cpu", "own_cpu", "runs", "inside_tests")}
    fates, spent = Counter[str](), Counter[str]()
    for one in passes:
        fates.update(one["fates"])
        spent.update(one["cpu_by_fate"])
    rates = [one["per_minute"] for one in passes]
    return {
        **total,
        "per_minute": round(60 * total["valid"] / total["cpu"], 1),
        "wanted": WANTED[figure],
        "quartiles": [round(value, 1) for value in statistics.quantiles(rates, n=4)] if len(rates) > 1 else rates * 3,
        "packages_that_reach_it": sum(rate >= WANTED[figure] for rate in rates),
        "fates": dict(fates.most_common()),
        "cpu_by_fate": {word: round(seconds, 1) for word, seconds in spent.most_common()},
    }


def compared(rows: Sequence[Row]) -> Row:
    """Each side over all packages that the peer was tried on."""
    found: Row = {}
    for side in ("swesmith", "patchgrad", "as tried"):
        parts = [row["peer"][side] for row in rows if "peer" in row]
        if not parts:
            return {}
        figures = ("proposed", "rewriting_cpu", "patches_cpu", "judged", "valid", "cpu")
        one = {name: round(sum(part[name] for part in parts), 2) for name in figures if name in parts[0]}
        if "proposed" in one:
            one["proposed_per_second"] = round(one["proposed"] / one["rewriting_cpu"], 1)
            one["proposed_per_second_with_patch"] = round(one["proposed"] / (one["rewriting_cpu"] + one["patches_cpu"]), 1)
        fates = sum((Counter(part["fates"]) for part in parts), Counter[str]())
        one |= {"share_valid": round(one["valid"] / one["judged"], 3), "cpu_a_valid_one": round(one["cpu"] / max(1, one["valid"]), 2)}
        found[side] = {**one, "fates": dict(fates.most_common())}
    return found


def table(rows: Mapping[str, Row], totals: Mapping[str, Any]) -> str:
    """What was measured, for reading."""
    head = f"{'package':16}{'tests':>7}{'set-up':>8}" + "".join(f"{name + ' of':>14}{'share':>7}{'CPU s':>8}{'/min':>7}" for name in WANTED)
    lines = [head]
    for name, row in rows.items():
        lines.append(f"{name:16}{row['tests']:7}{sum(row['setup'].values()):8.1f}" + "".join(_cells(row[figure]) for figure in WANTED))
    setup = sum(sum(row["setup"].values()) for row in rows.values())
    lines.append(f"{'all':16}{sum(row['tests'] for row in rows.values()):7}{setup:8.1f}" + "".join(_cells(totals[f]) for f in WANTED))
    for figure, wanted in WANTED.items():
        one = totals[figure]
        reach = f"{one['packages_that_reach_it']} of {len(rows)} packages reach {wanted:g}"
        lines += ["", f"{figure}: {one['per_minute']} a CPU-minute; quartiles over packages {one['quartiles']}, {reach}"]
        lines += [f"  {word:24}{count:6}{one['cpu_by_fate'][word]:9.1f} s" for word, count in one["fates"].items()]
        lines.append(f"  {one['runs']} runs, {one['inside_tests']} s of clock inside of tests, {one['own_cpu']} CPU s in this process")
    for side, one in totals["peer"].items():
        lines += ["", f"{side}:"] + [f"  {name:32}{value}" for name, value in one.items()]
    return "\n".join(lines)


def _cells(one: Row) -> str:
    share = one["valid"] / max(1, one["candidates"])
    return f"{one['valid']:8} {one['candidates']:5}{share:7.0%}{one['cpu']:8.1f}{one['per_minute']:7.1f}"


def machine() -> Row:
    """Where this ran, and the versions."""
    return records.machine() | {"load": os.getloadavg(), "peer": SWESMITH.alone[0]} | records.versions("patchgrad")


async def package(pinned: Pinned, wanted: argparse.Namespace, peer: bool) -> Row:
    """All of one package."""
    with tempfile.TemporaryDirectory() as name:
        bench = await ready(pinned, wanted.candidates)
        row = await ours(bench, Path(name))
        if peer:
            row["peer"] = await against(bench, wanted.judged, Path(name))
    return {"package": bench.name, "version": bench.shop.project.version, **row}


def options() -> argparse.Namespace:
    """What is wanted."""
    asked = parser(__doc__)
    asked.add_argument("--packages", default="", help="names, with commas between them; all without")
    asked.add_argument("--candidates", type=int, default=28, help="of each package")
    asked.add_argument("--peer-packages", type=int, default=8, help="on how many of the packages, the first ones, the peer is tried")
    asked.add_argument("--judged", type=int, default=12, help="of each side and package")
    asked.add_argument("--no-peer", action="store_true")
    asked.add_argument("--keep", type=Path, help="a file of JSON lines, one a package")
    asked.add_argument("--json-only", action="store_true")
    return asked.parse_args()


def main() -> None:
    """Measures, prints, and puts everything on the last line."""
    wanted = options()
    names, failed = set(filter(None, wanted.packages.split(","))), dict[str, str]()
    chosen = [one for one in PACKAGES if not names or one.requirement.partition("==")[0] in names]
    kept = wanted.keep.read_text().splitlines() if wanted.keep and wanted.keep.exists() else []
    rows: dict[str, Row] = {row["package"]: row for row in map(json.loads, kept)}
    with_peer = chosen[: 0 if wanted.no_peer else wanted.peer_packages]
    for number, pinned in enumerate(chosen):
        name = pinned.requirement.partition("==")[0]
        print(f"{number + 1} of {len(chosen)}: {pinned.requirement}", file=sys.stderr)
        if name in rows:
            continue
        try:
            rows[name] = asyncio.run(package(pinned, wanted, pinned in with_peer))
        except Exception as error:
            failed[pinned.requirement] = f"{type(error).__name__}: {error}"
            print(f"{pinned.requirement} could not be measured: {failed[pinned.requirement]}", file=sys.stderr)
            continue
        if wanted.keep:
            with wanted.keep.open("a") as file:
                file.write(json.dumps(rows[name]) + "\n")
    totals: Row = {figure: summed(list(rows.values()), figure) for figure in WANTED}
    totals["peer"] = compared(list(rows.values()))
    if not wanted.json_only:
        print(table(rows, totals))
    tell({"packages": list(rows.values()), "failed": failed, "total": totals, "machine": machine()})


if __name__ == "__main__":
    main()
