"""What a sandbox costs: opening, commands, warm and cold pytest, closing. Prints a table, and JSON last.

CPU time is that of everything inside the cell (PID 1, its children and the shell), the number that bounds a training run.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import statistics
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from patchgrad.contracts import Sandbox
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.values import Checks, Repository, Task

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\ndef test_one():\n    assert add(1, 2) == 3\n\ndef test_two():\n    assert not add(0, 0)\n",
}
COLD = "/opt/python/bin/python3.11 /run/cell/lib/pytest_cold.py -q"


def make_task(folder: Path) -> Task:
    """A tiny repository as an archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    path = folder / "repository.tar.gz"
    path.write_bytes(stream.getvalue())
    repository = Repository("archive", str(path), hashlib.sha256(stream.getvalue()).hexdigest())
    return Task("benchmark", "", repository, Checks((), ()))


async def cpu(sandbox: Sandbox) -> float:
    """Seconds that the processes of the cell used so far, those that ended included."""
    command = "cat /proc/1/stat; cat /proc/$$/stat"
    lines = (await sandbox.run(command)).output.splitlines()
    fields = [[int(word) for word in line.rpartition(")")[2].split()[11:15]] for line in lines]
    return sum(sum(row) for row in fields) / 100


async def timed(repeat: int, action: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Wall milliseconds: median and best."""
    samples = []
    for _ in range(repeat):
        start = time.perf_counter()
        await action()
        samples.append((time.perf_counter() - start) * 1000)
    return {"median_ms": round(statistics.median(samples), 3), "best_ms": round(min(samples), 3)}


async def measure(task: Task) -> dict[str, object]:
    """All figures of one run on one cell."""
    sandboxes = BwrapSandboxes(cells=2)
    start = time.perf_counter()
    sandbox = await sandboxes.open(task)
    figures: dict[str, object] = {"first_open_ms": round((time.perf_counter() - start) * 1000, 1)}
    figures["true"] = await timed(200, lambda: sandbox.run("true"))
    figures["bin_true"] = await timed(100, lambda: sandbox.run("/bin/true"))
    figures["python"] = await timed(20, lambda: sandbox.run("python -c pass"))
    figures["git_status"] = await timed(20, lambda: sandbox.run("git status --short"))
    figures["read"] = await timed(100, lambda: sandbox.read("calc.py"))
    figures["snapshot"] = await timed(50, sandbox.snapshot)
    for name, command, repeat in (("pytest_warm", "pytest -q", 60), ("pytest_cold", COLD, 10)):
        before = await cpu(sandbox)
        wall = await timed(repeat, lambda command=command: sandbox.run(command))  # type: ignore[misc]
        figures[name] = {**wall, "cpu_ms": round((await cpu(sandbox) - before) * 1000 / repeat, 2)}
    figures["pytest_exec"] = await timed(40, lambda: sandbox.exec(("pytest", "-q")))
    await sandbox.close()

    opens, closes = [], []
    for _ in range(50):
        start = time.perf_counter()
        sandbox = await sandboxes.open(task)
        await sandbox.run("true")
        opens.append((time.perf_counter() - start) * 1000)
        start = time.perf_counter()
        await sandbox.close()
        closes.append((time.perf_counter() - start) * 1000)
    figures["open_to_first_answer_ms"] = round(statistics.median(opens), 2)
    figures["close_ms"] = round(statistics.median(closes), 2)
    await sandboxes.close()
    return figures


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(make_task(Path(folder))))
    for name, value in figures.items():
        print(f"{name:28}{value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
