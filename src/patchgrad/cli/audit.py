"""what was a run trained on, and does its folder prove it?

Computes every chain of turns anew, from the run's folder alone, and counts every token: which were trained, sampled by which version, how
many updates before, and why the others were not. Exits with 1 where anything does not verify:

  patchgrad audit runs/laptop
  patchgrad audit runs/laptop --json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgrad.runs.inspection.audit import Audited


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, finished or not")
    parser.add_argument("--json", action="store_true", help="the findings as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Verify, tell, and exit with 1 where something does not hold."""
    from patchgrad.runs.inspection.audit import audit
    from patchgrad.store import Run

    found = audit(Run.open(arguments.run))
    sound = all(one.sound for one in found)
    if arguments.json:
        print(json.dumps({"sound": sound, "iterations": [asdict(one) for one in found]}))
    else:
        print("\n".join(page(found)))
    return 0 if sound else 1


def page(found: Sequence[Audited]) -> list[str]:
    """The findings as lines of text."""
    lines = [f"{'phase':<10}{'iteration':>10}{'attempts':>10}{'turns':>9}{'sampled':>11}{'trained':>11}  by version"]
    for one in found:
        versions = ", ".join(f"{version}: {tokens:,}" for version, tokens in sorted(one.versions.items())) or "-"
        versions += "".join(f" ({tokens:,} are {updates} updates behind)" for updates, tokens in sorted(one.behind.items()))
        lines.append(
            f"{one.phase:<10}{one.iteration + 1:>10}{one.attempts:>10,}{one.turns:>9,}{one.sampled:>11,}{one.trained:>11,}  {versions}"
        )
    why: Counter[str] = Counter()
    for one in found:
        why.update(one.left_out)
    lines += ["", f"{sum(one.sampled for one in found):,} action tokens were sampled, {sum(one.trained for one in found):,} trained."]
    lines += [f"  {tokens:>11,} {reason}" for reason, tokens in why.most_common()]
    if reprompted := sum(one.reprompted for one in found):
        lines.append(f"{reprompted:,} of those trained were imitated after a prompt without the demonstration that they were sampled with.")
    if again := sum(one.again for one in found):
        lines.append(f"{again:,} of those trained are of groups that had been trained before, in an earlier iteration of their stage.")
    if told := sum(one.told for one in found):
        lines.append(f"{told:,} turns were told that their sandbox was opened anew, and what they had lost by that.")
    lines += _streams(found)
    wrong = [one for one in found if not one.sound]
    for one in wrong:
        where = f"{one.phase}, iteration {one.iteration + 1}"
        lines += [f"{where}: {violation}" for violation in one.flaws]
        if one.strange:
            lines.append(f"{where}: tokens were sampled by another version of the policy than {one.current}, which was trained on them.")
        trained = one.epochs * one.trained
        if one.recorded not in (None, trained):
            lines.append(f"{where}: {one.recorded:,.0f} tokens were trained by the record, {trained:,} by the attempts.")
    chains = sum(one.attempts for one in found)
    lines.append(f"{chains - sum(len(one.flaws) for one in found):,} of {chains:,} chains verify." if found else "Nothing was trained yet.")
    return lines


def _streams(found: Sequence[Audited]) -> list[str]:
    """What is said of attempts that are more than one stream of turns from the beginning of their task."""
    lines = []
    if forks := sum(one.forks for one in found):
        lines.append(f"{forks:,} attempts are forks: they went on after turns of another attempt, and were not trained on these.")
    if restarted := sum(one.restarted for one in found):
        streams = sum(one.streams for one in found)
        told = "told their policy another story on the way, or went back to an earlier turn"
        lines.append(f"{restarted:,} attempts {told}; all attempts have {streams:,} token streams.")
    if asides := sum(one.asides for one in found):
        lines.append(f"{asides:,} questions of programs were answered aside from the turns, and not trained.")
    return lines
