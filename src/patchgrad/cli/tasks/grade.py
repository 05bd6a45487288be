"""grade predictions in SWE-bench's format: in sandboxes, or from the logs of runs that were recorded elsewhere

TASKS is a set of patchgrad's, or rows of SWE-bench, SWE-smith or SWE-rebench (.jsonl, .json, each also .gz). Rows are graded from
recorded logs only, which lie in folders or tar files as SWE-bench's harness leaves them:

  patchgrad tasks grade --predictions mine.jsonl --tasks sets/boltons
  patchgrad tasks grade --predictions gold --tasks sets/boltons --concurrency 8 --out graded
  patchgrad tasks grade --predictions mine.jsonl --tasks verified.jsonl.gz --recorded logs/run_evaluation --json

Exit code 0: every prediction was graded, whatever it is worth; 1: some could not be read or graded, and each is told; the others were.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchgrad.cli.grading import Tell, Tried, asked, grade, held_against, plain_word, predicted
from patchgrad.errors import Refused
from patchgrad.grading.reports import Graded
from patchgrad.grading.rules import shares
from patchgrad.values import Advanced, PhaseBegan


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--predictions", metavar="FILE", required=True, help=".jsonl or .json, or the word gold for the known solutions")
    parser.add_argument("--tasks", metavar="TASKS", required=True, help="a set's folder, or a file of rows")
    parser.add_argument("--recorded", metavar="LOGS", help="grade these recorded runs; nothing is run")
    parser.add_argument("--out", metavar="DIR", help="write SWE-bench's reports there: one an instance, one of the run")
    parser.add_argument("--run-id", metavar="NAME", default="patchgrad", help="how the reports are named (default: patchgrad)")
    parser.add_argument("--concurrency", metavar="N", type=int, default=4, help="sandboxes at once (default: 4)")
    parser.add_argument("--json", action="store_true", help="no progress; the run's report as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Grade, write and tell; the exit code says whether every prediction was graded, not what they are worth."""
    from patchgrad.runs.trackers.terminal import choose

    run_id = plain_word(arguments.run_id)
    refused = Refused()
    held = held_against(Path(arguments.tasks), refused)
    predictions = predicted(arguments.predictions, held, refused)
    refused.unless(predictions)
    with choose(quiet=arguments.json) as tracker:
        tracker.event(PhaseBegan("grade", len(asked(predictions))))
        tell: Tell = lambda found: tracker.event(Advanced(1, {"resolved": found.verdict is not None and found.verdict.resolved}))  # noqa: E731
        tried = grade(held, predictions, arguments.recorded, arguments.concurrency, tell)
    written = tried.write(Path(arguments.out), run_id) if arguments.out is not None else None
    spoiled = [*refused.sentences, *tried.refused]
    _tell(tried, written, spoiled, as_json=arguments.json)
    return int(bool(spoiled) or any(found.broken for found in tried.graded.values()))


def _tell(tried: Tried, written: Path | None, refused: Sequence[str], *, as_json: bool) -> None:
    report, agreed = tried.report, tried.agreed
    notes = {name: found.note for name, found in sorted(tried.graded.items()) if found.note}
    same = {"reports": len(agreed), "resolved": sum(one for one, _ in agreed.values()), "lists": sum(both for _, both in agreed.values())}
    differ = sorted(name for name, both in agreed.items() if not all(both))
    if as_json:
        instances = {name: _facts(found) for name, found in sorted(tried.graded.items())}
        told = {**report, "notes": notes, "refused": list(refused), "instances": instances, "report": str(written) if written else None}
        print(json.dumps(told | ({"agreement": {**same, "differ": differ}} if agreed else {})))
        return
    counts = ("resolved", "unresolved", "empty_patch", "error")
    words = ", ".join(f"{report[f'{name}_instances']} {name.replace('_', ' ')}" for name in counts)
    print(f"{report['submitted_instances']} predictions for {report['total_instances']} tasks: {words}")
    for name, note in notes.items():
        print(f"  {name}: {note}")
    for sentence in refused:
        print(f"  refused: {sentence}")
    if agreed:
        print(f"The recorded reports agree on {same['resolved']} of {same['reports']} verdicts and {same['lists']} lists of tests.")
    for name in differ:
        print(f"  {name}: recorded otherwise")
    if written is not None:
        print(f"Written: {written}")


def _facts(found: Graded) -> dict[str, Any]:
    if found.verdict is None:
        return {"resolved": False, "stages": []}
    to_mend, to_keep = shares(found.verdict)
    return {
        "resolved": found.verdict.resolved,
        "stages": list(found.verdict.stages),
        "fail_to_pass": to_mend,
        "pass_to_pass": to_keep,
        "seconds": round(found.verdict.seconds, 3),
    }
