"""Sandboxes side by side: ours, SWE-ReX, mini-swe-agent's bubblewrap, podman, a bare shell, a bare fork and exec. A table, and JSON last.

    python benchmarks/sandboxes/sandbox.py [--samples 40] [--live 256] [--no-peers]

Peers are installed in an environment of their own, below the cache. Rounds of all sides alternate, so that whatever else the machine does
hits each of them. `podman run` is measured where podman and runc are installed and this is root.
"""

from __future__ import annotations

import asyncio
import io
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import by_turns, joined, same
from benchmarks.library.pairing import milliseconds as since
from benchmarks.library.peers import MINI_SWE_AGENT, ROOT, SWE_REX, Peer, PeerFailed
from benchmarks.library.records import machine
from benchmarks.sandboxes.sandbox_peers import BIG

from patchgrad.contracts import Sandbox
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.store import States
from patchgrad.tasks.archive import pack, store
from patchgrad.values import Checks, Snapshot, Task

HERE = Path(__file__).resolve().parent
FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\ndef test_one():\n    assert add(1, 2) == 3\n\ndef test_two():\n    assert not add(0, 0)\n",
}
COLD = "/opt/python/bin/python3.11 /run/cell/lib/pytest_cold.py -q"
PEERS = (SWE_REX, MINI_SWE_AGENT)
ISOLATION = {
    "patchgrad": "namespaces (network, pid, ipc, uts, user), seccomp, limits, files by overlay",
    "mini-swe-agent": "user and mount namespace; the network, processes and limits are the host's",
    "swe-rex": "none: a shell of the host",
    "podman": "a container: namespaces, seccomp, cgroups",
    "bare shell": "none: a bash over pipes, blocking calls",
    "fork and exec": "none: /bin/true",
}
ROUNDS = 4
Samples = dict[str, list[float]]


async def timed(action: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Milliseconds of one call, and what it gave."""
    start = time.perf_counter()
    result = await action()
    return since(start), result


def fork_and_exec(count: int) -> list[float]:
    """A bare `/bin/true`."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        found.append(since(start))
    return found


def bare_shell(count: int) -> Samples:
    """What a persistent shell costs by itself."""
    found: Samples = defaultdict(list)
    with subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as bash:
        assert bash.stdin is not None
        assert bash.stdout is not None
        for _ in range(count):
            for name, command in (("true", b"/bin/true"), ("builtin", b"true")):
                start = time.perf_counter()
                bash.stdin.write(command + b"; echo\n")
                bash.stdout.readline()
                found[name].append(since(start))
        bash.stdin.close()
    return found


def theirs(peer: Peer, count: int) -> Samples:
    """A peer's samples, from its own environment; none of a round in which it failed."""
    try:
        return dict(peer.answer(HERE / "sandbox_peers.py", peer.name, str(count)))
    except PeerFailed as failure:
        print(f"in this round {failure}", file=sys.stderr)
        return {}


def podman(count: int, folder: Path) -> Samples:
    """`podman run` of a bare image whose programs are mounted from the host."""
    (folder / "conf").write_text(
        '[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\nevents_logger = "file"\n'
        '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n'
    )
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run"):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for name in ("bin", "lib", "lib64"):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(member)
    (folder / "image.tar").write_bytes(stream.getvalue())
    environment = {**os.environ, "CONTAINERS_CONF": str(folder / "conf")}
    call = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    subprocess.run([*call, "import", "-q", str(folder / "image.tar"), "bare"], env=environment, check=True, capture_output=True)
    found = []
    try:
        for _ in range(count):
            start = time.perf_counter()
            run = [*call, "run", "--rm", "--network=none", "-v", "/usr:/usr:ro", "bare", "/bin/true"]
            subprocess.run(run, env=environment, check=True, capture_output=True)
            found.append(since(start))
    finally:
        subprocess.run(["umount", "-l", folder / "root" / "overlay"], check=False, capture_output=True)
    return {"first_answer": found}


async def ours(count: int, task: Task) -> Samples:
    """One round: cold cells, then cells of the pool, then commands."""
    boxes, found = BwrapSandboxes(cells=64), defaultdict[str, list[float]](list)
    await (await boxes.open(task)).close()  # the nest and the repository are there; the one idle cell is taken next
    held = [await boxes.open(task)]
    for _ in range(count):
        milliseconds, sandbox = await timed(lambda: first_answer(boxes, task))
        found["first_answer"].append(milliseconds)
        held.append(sandbox)
    for sandbox in held:
        found["close"].append((await timed(sandbox.close))[0])
    with tempfile.TemporaryDirectory() as folder:
        states, state = States(Path(folder)), await a_state(boxes, task)
        states.put(state)
        for _ in range(count):
            for figure, at in (("from_the_pool", lambda: None), ("fork_of_a_stored_turn", lambda: states.get(state.address, "/testbed"))):
                milliseconds, sandbox = await timed(lambda at=at: first_answer(boxes, task, at()))  # type: ignore[misc]
                found[figure].append(milliseconds)
                await sandbox.close()
    async with await boxes.open(task) as sandbox:
        await commands(count, sandbox, found)
    await boxes.close()
    return found


async def a_state(boxes: BwrapSandboxes, task: Task) -> Snapshot:
    """What a few turns leave: 31 new files, and one that was changed."""
    async with await boxes.open(task) as sandbox:
        await sandbox.run("for i in $(seq 31); do echo $i > file$i; done; echo >> calc.py")
        return await sandbox.snapshot()


async def first_answer(boxes: BwrapSandboxes, task: Task, state: Snapshot | None = None) -> Sandbox:
    """A sandbox that has answered once, fresh or as a turn left it."""
    sandbox = await boxes.open(task, state)
    await sandbox.run("true")
    return sandbox


async def commands(count: int, sandbox: Sandbox, found: Samples) -> None:
    """Commands, states, and tests in one sandbox."""
    await sandbox.run("pytest -q")
    for _ in range(count):
        for name, command in (("true", "/bin/true"), ("builtin", "true"), ("megabyte", BIG)):
            found[name].append((await timed(lambda command=command: sandbox.run(command)))[0])  # type: ignore[misc]
    for _ in range(max(3, count // 4)):
        found["pytest_warm"].append((await timed(lambda: sandbox.run("pytest -q")))[0])
        found["pytest_cold"].append((await timed(lambda: sandbox.run(COLD)))[0])
    await sandbox.run("for i in $(seq 31); do echo $i > file$i; done")
    for _ in range(max(3, count // 4)):
        milliseconds, state = await timed(sandbox.snapshot)
        found["snapshot"].append(milliseconds)
        milliseconds, fork = await timed(sandbox.fork)
        found["fork"].append(milliseconds)
        found["reset"].append((await timed(fork.reset))[0])
        await fork.close()
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            states = States(Path(folder))
            states.put(state)
            states.sync()
            found["durable_layer"].append(since(start))


async def crowd(live: int, task: Task) -> dict[str, float]:
    """What the last of many sandboxes costs beside the first, how 16 sleepers run, and the memory of one that idles."""
    boxes = BwrapSandboxes(cells=live + 16)
    nests = -(-(live + 16) // 64)
    held, opened = [await boxes.open(task) for _ in range(nests)], []  # each nest and its repository are there
    for _ in range(live - nests):
        milliseconds, sandbox = await timed(lambda: first_answer(boxes, task))
        opened.append(milliseconds)
        held.append(sandbox)
    memory = sum(_pss(process) for process in Path("/proc").glob("[0-9]*"))
    start = time.perf_counter()
    await asyncio.gather(*(sandbox.run("sleep 1") for sandbox in held[:16]))
    sleeping = since(start)
    await asyncio.gather(*(sandbox.close() for sandbox in held))
    await boxes.close()
    early, late = statistics.median(opened[:8]), statistics.median(opened[-8:])
    return {
        "sixteen_sleep": sleeping,
        f"create_at_{nests}_live": early,
        f"create_at_{live}_live": late,
        "megabytes_a_sandbox": (memory - sum(_pss(process) for process in Path("/proc").glob("[0-9]*"))) / live / 2**20,
    }


def _pss(process: Path) -> int:
    """Bytes of a process of a sandbox or nest, what it shares with others shared out; 0 for the others."""
    try:
        if "patchgrad" not in (process / "cmdline").read_text() and "/run/cell" not in (process / "cmdline").read_text():
            return 0
        return next(int(line.split()[1]) * 1024 for line in (process / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def hundred_tasks() -> float:
    """Bytes of a hundred states of one repository, ours, that differ in a line each, over those of a hundred copies."""
    root = ROOT / "src"
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.py")}
    names, copies = sorted(files), 100 * sum(map(len, files.values()))
    with tempfile.TemporaryDirectory() as folder:
        states = States(Path(folder))
        for number in range(100):
            changed = files | {names[number]: files[names[number]] + b"# changed\n"}
            states.put(Snapshot.of({path: (0o100644, content) for path, content in changed.items()}))
        return states.size() / copies


def spread(samples: list[float]) -> dict[str, float]:
    """Milliseconds: median, 99th percentile and number of samples."""
    ordered = sorted(samples)
    return {
        "p50": round(statistics.median(ordered), 3),
        "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
        "n": len(ordered),
    }


def main() -> None:
    """Measures, prints, and puts everything on the last line."""
    asked = parser(__doc__)
    asked.add_argument("--samples", type=int, default=40)
    asked.add_argument("--live", type=int, default=256)
    asked.add_argument("--no-peers", action="store_true")
    wanted = asked.parse_args()
    share = max(2, wanted.samples // ROUNDS)
    engine = not wanted.no_peers and os.geteuid() == 0 and all(shutil.which(name) for name in ("podman", "runc"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = Task("benchmark", "", store(folder, pack({path: text.encode() for path, text in FILES.items()})), Checks((), ()))
        turns: dict[str, Callable[[int], Samples]] = {
            "fork and exec": lambda _: {"true": fork_and_exec(5 * share)},
            "bare shell": same(bare_shell, 5 * share),
            "patchgrad": lambda _: asyncio.run(ours(share, task)),
            **{peer.name: same(theirs, peer, share) for peer in (() if wanted.no_peers else PEERS)},
        }
        found = by_turns(turns, ROUNDS, lambda number, side, _: print(f"round {number + 1} of {ROUNDS}: {side}", file=sys.stderr))
        sides = {side: joined(rounds) for side, rounds in found.items()}
        if engine:
            sides["podman"] = podman(max(5, share), folder)
        crowded = asyncio.run(crowd(wanted.live, task))
    figures: dict[str, Any] = {side: {name: spread(samples) for name, samples in told.items()} for side, told in sides.items()}
    figures["crowd"] = {name: round(value, 2) for name, value in crowded.items()}
    figures["hundred_tasks_share"] = round(hundred_tasks(), 4)
    figures["machine"] = machine() | {"load": os.getloadavg(), "python": platform.python_version()}
    for side, told in figures.items():
        print(f"\n{side}" + (f" ({ISOLATION[side]})" if side in ISOLATION else ""))
        for figure, value in told.items() if isinstance(told, dict) else [("", told)]:
            print(f"  {figure:22}{value}")
    tell(figures)


if __name__ == "__main__":
    main()
