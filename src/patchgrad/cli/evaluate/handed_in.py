"""Of `patchgrad evaluate`: predictions that are there already, a file a run. Verdicts are those of `patchgrad tasks grade`; what is
added are the figures over tasks and runs, so that others' runs can be compared with one's own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchgrad.cli import options as shared
from patchgrad.cli.evaluate.telling import tell
from patchgrad.cli.grading import Held, Tried, asked, grade, held_against, plain_word, predicted
from patchgrad.errors import ConfigError, Refused
from patchgrad.evaluation import from_outcomes, over_tasks
from patchgrad.grading.output import PATCH_FAILED
from patchgrad.store import finite, plain
from patchgrad.store.files import put
from patchgrad.values import Advanced, PhaseBegan, Report


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the words of predictions."""
    group = parser.add_argument_group("predictions")
    group.add_argument("--predictions", metavar="FILE", nargs="+", help="SWE-bench's format, a file a run; or the word gold")
    group.add_argument("--recorded", metavar="LOGS", nargs="+", help="their recorded runs, one place for all or one for each file")
    group.add_argument("--run-id", metavar="NAME", help="how SWE-bench's reports are named (default: patchgrad)")
    group.add_argument("--concurrency", metavar="N", type=int, help="sandboxes at once that grade predictions (default: 4)")


def run(arguments: argparse.Namespace) -> int:
    """Grade each file, then tell of all of them as of runs of one policy."""
    from patchgrad.runs.trackers.terminal import choose

    if not arguments.tasks:
        raise ConfigError("Name what the predictions are for, as in --tasks sets/mine or --tasks verified.jsonl.gz.")
    places = arguments.recorded or [None]
    if len(places) not in (1, len(arguments.predictions)):
        raise ConfigError(f"--recorded names {len(places)} places for {len(arguments.predictions)} files: one for all, or one for each.")
    refused, run_id, started = Refused(), plain_word(arguments.run_id or "patchgrad"), time.monotonic()
    held = held_against(Path(arguments.tasks), refused)
    files = [predicted(source, held, refused) for source in arguments.predictions]
    refused.unless(any(files))
    tried = []
    with choose(quiet=arguments.json) as tracker:
        tracker.event(PhaseBegan("grade", sum(len(asked(predictions)) for predictions in files)))
        for number, predictions in enumerate(files):
            place = places[number % len(places)]
            seen = lambda found: tracker.event(Advanced(1, {"resolved": found.verdict is not None and found.verdict.resolved}))  # noqa: E731
            tried.append(grade(held, predictions, place, 4 if arguments.concurrency is None else arguments.concurrency, seen))
    report = report_of(held, tried, time.monotonic() - started)
    written = Path(arguments.out) if arguments.out is not None else None
    if written is not None:
        names = [run_id] if len(tried) == 1 else [f"{run_id}-{number}" for number in range(1, len(tried) + 1)]
        for name, one in zip(names, tried, strict=True):
            one.write(written, name)
        put(written / "report.json", (json.dumps({"reports": [finite(plain(report))]}, indent=2) + "\n").encode())
    code = tell(report, arguments.json, written)
    if not arguments.json:
        _agreement(tried)
    spoiled = [*refused.sentences, *(sentence for one in tried for sentence in one.refused)]
    return shared.told(spoiled) or code


def report_of(held: Held, tried: Sequence[Tried], seconds: float) -> Report:
    """The figures of these runs. A task without a prediction or with an empty one is not solved, as in SWE-bench; a patch that does not
    apply neither. Where tests left no log, or a sandbox broke, nobody knows: such attempts are bounded.
    """
    outcomes = {name: tuple(_outcome(one, name) for one in tried) for name in held.rows}
    models = dict.fromkeys(prediction.model for one in tried for prediction in one.predictions.values())
    report = from_outcomes(" and ".join(models), outcomes, len(tried), seconds)
    patched = [sum(bool(one.predictions[name].patch) for one in tried if name in one.predictions) / len(tried) for name in held.rows]
    reports, same = sum(len(one.agreed) for one in tried), sum(verdict for one in tried for verdict, _ in one.agreed.values())
    about = {"tasks": str(held.place)} | ({"recorded": f"agrees with {same} of {reports} recorded verdicts"} if reports else {})
    return replace(report, submitted=over_tasks(patched, len(tried)), about=about)


def _outcome(tried: Tried, name: str) -> bool | None:
    prediction, found = tried.predictions.get(name), tried.graded.get(name)
    if prediction is None or not prediction.patch or found is None or found.note == PATCH_FAILED:
        return False
    return found.verdict.resolved if found.verdict is not None and found.judged else None


def _agreement(tried: Sequence[Tried]) -> None:
    agreed = [both for one in tried for both in one.agreed.values()]
    if agreed:
        print(f"The recorded reports agree on {sum(one for one, _ in agreed)} of {len(agreed)} verdicts.")
    for one in tried:
        for name, both in sorted(one.agreed.items()):
            if not both[0]:
                print(f"  {name}: recorded otherwise")
