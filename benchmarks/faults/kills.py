"""Kills random processes of runs on a cluster of this machine, and holds what comes of these runs against one that nobody touched.

    python benchmarks/faults/kills.py [--kills 100] [--seed 0] [--work runs/kills] [--out docs/studies/kills.json]

A run has three Ray nodes, two ranks of the trainer, two replicas of the policy, and no lag. Every few seconds one of its processes gets
SIGKILL: the one that trains, a rank, an actor (a host of attempts or a replica), a node, the head, or the process that keeps the nodes.
A run that ends before it is done is resumed, and `WHOLE` kills after its beginning it is left alone. In the end its checkpoints have the
bytes of the untouched run, its metrics are the same but for seconds and load, and nothing of it is left.
Prints what was killed, and what became of it; prints JSON last.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

from patchgrad.config import dumps, override
from patchgrad.recipes.tiny import tiny
from patchgrad.store import Run
from patchgrad.store.files import put

WHOLE = 12
"""Kills of one run, after which it is left alone."""

PAUSE = 8.0
"""Seconds between two kills at most."""

EARLY = 0.2
"""The part of the kills that may come before anything works; the others wait for that."""

ENDED = 90.0
"""Seconds in which everything that a run has begun has to be gone after it."""

WHERE = ("--cluster", "local:3")
ALONE = {"optimiser.threads": "2", "evaluation.after": "last"}
TOGETHER = {**ALONE, "trainer": "sharded", "trainer.ranks": "2", "policy.replicas": "2"}
"""What the recipes have otherwise than `tiny`: that of the untouched run, and that of the others."""

ROLES: Mapping[str, str] = {
    "serving": "a rank",
    "ray::Served": "an actor",
    "raylet": "a node",
    "gcs_server": "the head",
    "hosts.nodes": "the keeper of the nodes",
}
"""Who a process is, by what its command has in it."""


@dataclass(frozen=True, slots=True)
class Process:
    role: str
    number: int


def begun(folder: Path, *where: str) -> subprocess.Popen[str]:
    """`patchgrad train`, which begins the run or goes on with it, by the recipe beside its folder."""
    program = str(Path(sys.executable).with_name("patchgrad"))
    command = [program, "train", str(folder.with_suffix(".toml")), "--run", str(folder), "--resume", *where]
    with folder.with_suffix(".log").open("a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, text=True)


class Seen:
    """Processes that a run has begun, by who began them, besides sandboxes, which are made anew for other reasons too.

    One that was seen stays known: who has begun it may be killed before it.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}
        self._ever = set[int]()

    def below(self, root: int) -> list[Process]:
        """Those that live now, of this process and of all that were seen before."""
        there = dict(_there())
        self._known = {number: one for number, one in self._known.items() if number in there and there[number][1] == one[1]}
        roots = {root, *self._known}
        for number in sorted(there, key=lambda number: int(there[number][1])):  # who is begun comes after who begins it
            parent, began, command = there[number]
            if parent in roots:
                roots.add(number)
                self._known[number] = _role(command), began
        self._ever |= roots
        return [Process(role, number) for number, (role, _) in self._known.items() if role]

    def folders(self) -> list[Path]:
        """What they have in memory or where temporary files are: a folder is named after the process that made it (`links/kept.py`)."""
        places = (Path("/dev/shm"), Path(tempfile.gettempdir()))
        found = [path for place in places for path in place.glob("patchgrad-*")]
        return [path for path in found if any(part.isdecimal() and int(part) in self._ever for part in path.name.split("-"))]


def _role(command: str) -> str:
    """Who it is, or nothing: the head's own node dies with the head."""
    role = next((role for part, role in ROLES.items() if part in command), "")
    return "" if role == "a node" and "--head" in command else role


def _there() -> Iterator[tuple[int, tuple[int, str, str]]]:
    """Of every process its parent, when it began, and its command."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                command = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(path.parent.name), (int(fields[1]), fields[19], command)


def killed(folder: Path, most: int, chance: random.Random) -> list[dict[str, Any]]:
    """One run until it is done, with at most so many kills: each with its second, and with how the run ended where it did."""
    told, began = list[dict[str, Any]](), time.monotonic()
    while True:
        trains, seen = begun(folder, *WHERE), Seen()
        while trains.poll() is None:
            early = chance.random() < EARLY
            while not early and trains.poll() is None and not working(seen.below(trains.pid)):
                time.sleep(0.5)
            with suppress(subprocess.TimeoutExpired):
                trains.wait(chance.uniform(0, PAUSE) if len(told) < most else None)
                continue
            victim = chosen([Process("the one that trains", trains.pid), *seen.below(trains.pid)], chance)
            with suppress(ProcessLookupError):
                os.kill(victim.number, signal.SIGKILL)
                told.append({"run": folder.name, "second": round(time.monotonic() - began), "killed": victim.role})
                print(told[-1], flush=True)
        nothing_left(folder, seen)
        if trains.returncode == 0:
            return told
        told[-1]["exit"] = trains.returncode


def working(there: list[Process]) -> bool:
    """Is there an actor, and a rank of the trainer?"""
    return {"a rank", "an actor"} <= {one.role for one in there}


def chosen(there: list[Process], chance: random.Random) -> Process:
    """Each role is as likely as the others; the last node is spared, as no other one would come."""
    nodes = sum(one.role == "a node" for one in there)
    roles = sorted({one.role for one in there if one.role != "a node" or nodes > 1})
    role = chance.choice(roles)
    return chance.choice([one for one in there if one.role == role])


def nothing_left(folder: Path, seen: Seen) -> None:
    """Waits until all is gone that a run has begun; `AssertionError` where it is not in time."""
    last = time.monotonic() + ENDED
    while orphans := [*seen.below(-1), *seen.folders()]:
        assert time.monotonic() < last, f"{folder} left behind: {orphans}"
        time.sleep(0.2)


def same(one: Run, other: Run) -> None:
    """Raises `AssertionError` where the runs differ in more than durations."""
    untimed = [
        [{name: value for name, value in row.items() if name not in ("seconds", "cores_busy")} for row in run.results.metrics()]
        for run in (one, other)
    ]
    assert json.dumps(untimed[0]) == json.dumps(untimed[1]), f"{other.folder} has other metrics"
    names = [path.name for path in one.checkpoints.all()]
    assert names == [path.name for path in other.checkpoints.all()], f"{other.folder} has other checkpoints"
    for name in names:
        files = [(run.folder / "checkpoints" / name / "model.safetensors").read_bytes() for run in (one, other)]
        assert files[0] == files[1], f"{name} of {other.folder} has other bytes"


def kill(work: Path, kills: int, seed: int) -> list[dict[str, Any]]:
    """So many kills, over as many runs as it takes. Raises `AssertionError` where a run is not what it was to be."""
    work.mkdir(parents=True, exist_ok=True)
    chance, told = random.Random(seed), list[dict[str, Any]]()
    untouched = work / "untouched"
    untouched.with_suffix(".toml").write_text(dumps(override(tiny(), ALONE)))
    assert begun(untouched).wait() == 0, untouched.with_suffix(".log").read_text()
    for number in itertools.count(1):
        folder = work / f"run-{number}"
        folder.with_suffix(".toml").write_text(dumps(override(tiny(), TOGETHER)))
        told += killed(folder, min(WHOLE, kills - len(told)), chance)
        same(Run.open(untouched), Run.open(folder))
        print(f"{folder.name} is the untouched run, after {len(told)} kills in all", flush=True)
        shutil.rmtree(folder)
        if len(told) >= kills:
            break
    return told


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--work", type=Path, default=Path("runs/kills"))
    options.add_argument("--out", type=Path, default=Path("docs/studies/kills.json"))
    given = options.parse_args()
    began = time.monotonic()
    told = kill(given.work.resolve(), given.kills, given.seed)
    found = {"kills": len(told), "minutes": (time.monotonic() - began) / 60, "killed": Counter(one["killed"] for one in told), "log": told}
    put(given.out, json.dumps(found, indent=1).encode() + b"\n")
    tell(found)


if __name__ == "__main__":
    main()
