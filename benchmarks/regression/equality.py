"""Is a run the same to the bit as one of another commit? For changes that must change nothing.

    python benchmarks/regression/equality.py record before.json            in a checkout of the commit before; some eight minutes
    python benchmarks/regression/equality.py record after.json             in one of the commit after, on the same machine
    python benchmarks/regression/equality.py compare before.json after.json

Recorded are: checkpoints of `smoke` and of a short `laptop` by SHA-256, the address of every turn, what `metrics.jsonl` measures but for
seconds, Pass@1, the audit's page, and the verdicts of recorded runs of SWE-bench where PATCHGRAD_DATA names them. `--only smoke` is the
short check. Processors round differently, so both have to be recorded on one machine; and a command that tells the time, or how many
paths git touched, may answer otherwise in two runs of one commit: record one commit twice before a difference is believed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from patchgrad.grading.predictions import read_predictions
from patchgrad.grading.recorded import Recordings, judge
from patchgrad.grading.rows import read_rows

PROGRAM = (sys.executable, "-c", "import sys; from patchgrad.cli import main; sys.exit(main())")
SMOKE = ("smoke",)
LAPTOP = (
    *("laptop", "--tasks.held_out", "12", "--rft.rounds", "1", "--rft.tasks", "30", "--stages.0.iterations", "2"),
    *("--stages.1.iterations", "1", "--stages.0.sampling.tasks", "10", "--stages.1.sampling.tasks", "8"),
)
TIMED = ("seconds", "cores_busy")


def main() -> int:
    """Record one checkout, or compare two records; exit code 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    record = verbs.add_parser("record")
    record.add_argument("out", type=Path)
    record.add_argument("--only", choices=("smoke", "laptop", "verdicts"), action="append")
    compare = verbs.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "compare":
        return compared(json.loads(arguments.before.read_text()), json.loads(arguments.after.read_text()))
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "smoke": lambda: a_run(SMOKE),
        "laptop": lambda: a_run(LAPTOP),
        "verdicts": verdicts,
    }
    found = {name: part() for name, part in parts.items() if not arguments.only or name in arguments.only}
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def a_run(recipe: tuple[str, ...]) -> dict[str, Any]:
    """Train a recipe in a fresh folder, and all of it that a clock does not change."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        subprocess.run([*PROGRAM, "train", *recipe, "--run", str(folder), "--json"], check=True, stdout=subprocess.DEVNULL)
        page = subprocess.run([*PROGRAM, "audit", str(folder)], check=True, capture_output=True, text=True).stdout
        reports = json.loads((folder / "report.json").read_text())["reports"]
        return {
            **{f"{path.parent.name}/{path.name}": sha(path) for path in sorted(folder.glob("checkpoints/*/*.safetensors"))},
            "turns": sorted(f"{row['trajectory']} {row['address']}" for row in records(folder / "journal")),
            "metrics": [numbers(row) for row in lines(folder / "metrics.jsonl")],
            "outcomes": [report["outcomes"] for report in reports],
            "audit": page.splitlines(),
        }


def verdicts() -> dict[str, Any]:
    """What recorded runs of SWE-bench are judged as; nothing where there are none."""
    if "PATCHGRAD_DATA" not in os.environ:
        return {}
    place = Path(os.environ["PATCHGRAD_DATA"]) / "swebench_verified_60"
    rows, predictions = read_rows(place / "rows.jsonl.gz"), read_predictions(place / "predictions.jsonl.gz")
    recordings = Recordings(place / "eval_logs.tar.gz")
    found: dict[str, Any] = {}
    for name, prediction in predictions.items():
        verdict = judge(rows[name], prediction, recordings.find(name, prediction.model)).verdict
        tests = [[test.id, test.status, test.satisfied] for test in verdict.tests] if verdict else []
        found[name] = [verdict.resolved, list(verdict.stages), hashlib.sha256(json.dumps(tests).encode()).hexdigest()] if verdict else None
    return found


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lines(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text().splitlines())


def records(folder: Path) -> Iterator[dict[str, Any]]:
    return (row for path in sorted(folder.glob("*.jsonl")) for row in lines(path))


def numbers(row: Any) -> list[str]:
    """Every number of a record but those of a clock, in order of size: names may change where nothing else does."""
    if isinstance(row, dict):
        return sorted(found for name, item in row.items() if name not in TIMED for found in numbers(item))
    if isinstance(row, list):
        return sorted(found for item in row for found in numbers(item))
    return [repr(float(row))] if isinstance(row, int | float) and not isinstance(row, bool) else []


def compared(before: dict[str, Any], after: dict[str, Any]) -> int:
    """A line a part; 1 where one differs."""
    differ = 0
    for name in sorted({*before, *after}):
        for part in sorted({*before.get(name, {}), *after.get(name, {})}):
            left, right = before.get(name, {}).get(part), after.get(name, {}).get(part)
            differ += left != right
            size = f" ({len(left)})" if isinstance(left, list) else ""
            if name != "verdicts" or left != right:
                print(f"{'same     ' if left == right else 'DIFFERENT'} {name}: {part}{size}")
    verdicts = len(before.get("verdicts", {}))
    print(f"{differ} parts differ" if differ else f"all parts are the same, {verdicts} verdicts among them")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
