"""Of `patchgrad check --attacks`: hostile programs and forged patches are tried on this host, and what was not held is told."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.cli.check.isolation import sandbox

if TYPE_CHECKING:
    from patchgrad.testing.attacks import Finding, Suite

TITLES = {"sandbox": "attacks on the sandbox", "grader": "attacks on the grader", "drawn": "drawn attacks"}


def attacked(arguments: argparse.Namespace) -> int:
    """Run the attacks, tell as it goes, and exit with 1 where something was not held."""
    from patchgrad.testing import attacks

    suites: dict[str, Suite] = {"sandbox": attacks.attack_sandbox, "grader": attacks.attack_grader}
    if arguments.replay:
        member = attacks.drawn(arguments.seed, arguments.replay)
        suites = {"drawn": partial(attacks.attack_drawn, seed=arguments.seed, addresses=[arguments.replay])}
        print("" if arguments.json else attacks.shown(member), end="")
    elif arguments.seconds:
        suites["drawn"] = partial(attacks.attack_drawn, seed=arguments.seed, addresses=attacks.rounds(arguments.seconds))
    (opens, *_) = sandbox()
    if not opens.holds:
        print(f"The attacks need a sandbox that opens, and none does: {opens.note}", file=sys.stderr)
        return 1
    told = {name: _tried(name, suite, arguments.json) for name, suite in suites.items()}
    (_tell_json if arguments.json else _tell)(told, arguments.seed)
    return 0 if all(finding.held for findings in told.values() for finding in findings) else 1


def _tell(told: Mapping[str, Sequence[Finding]], seed: int) -> None:
    """How much was held, and what brings each escape of what was drawn back."""
    from patchgrad.testing.attacks import by_family, escapes

    drawn = told.get("drawn", ())
    for family, (held, tried) in by_family(drawn).items():
        print(f"  {family:<12} {held} of {tried} held")
    for escape in escapes(drawn, seed):
        print(f"\nESCAPE  {escape}")
    totals = (f"{sum(one.held for one in found)} of {len(found)} {TITLES[name]} held" for name, found in told.items())
    print("\n" + ", ".join(totals))


def _tell_json(told: Mapping[str, Sequence[Finding]], seed: int) -> None:
    from patchgrad.testing.attacks import by_family

    totals: dict[str, object] = {name: {"held": sum(one.held for one in found), "of": len(found)} for name, found in told.items()}
    if "drawn" in told:
        families = {family: {"held": held, "of": tried} for family, (held, tried) in by_family(told["drawn"]).items()}
        totals |= {"seed": seed, "families": families}
    listed = [{"name": one.name, "held": one.held, "note": one.note} for found in told.values() for one in found]
    print(json.dumps({"user": os.geteuid(), **totals, "attacks": listed}))


def _tried(name: str, suite: Suite, quiet: bool) -> list[Finding]:
    """What comes of a suite on this host, told as it goes."""
    from patchgrad.sandboxes.bwrap import BwrapSandboxes
    from patchgrad.tasks.archive import pack, store
    from patchgrad.testing.attacks import FILES

    def tell(finding: Finding) -> None:
        if not quiet:
            print(f"  {'held' if finding.held else 'NOT HELD'}  {finding.name}{'' if finding.held else ': ' + finding.note}", flush=True)

    if not quiet:
        print(f"{TITLES[name].capitalize()}:")
    with tempfile.TemporaryDirectory() as folder:
        repository = store(Path(folder), pack({path: text.encode() for path, text in FILES.items()}))
        return asyncio.run(suite(partial(BwrapSandboxes, cells=4), repository, on_finding=tell))
