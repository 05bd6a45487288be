"""can this machine isolate an agent, and is everything installed that training needs?

Opens one sandbox, runs a command in it, and says in plain words what holds here, and what to do about what does not:

  patchgrad check
  patchgrad check --attacks
  patchgrad check --attacks --seconds 600 --seed 7
  patchgrad check --attacks --replay patching/12 --seed 7
  patchgrad check --cluster auto
  patchgrad check mine.toml --cluster auto
  patchgrad check --json

With --cluster each machine of a cluster that makes attempts opens one. With a recipe its trainer's ranks also make a step together, and
each of its replicas takes over published weights, all about a small network.

With --attacks hostile programs try the sandbox and forged patches the grader, each bounded so that a host that does not hold it takes no
harm. With --seconds more of them are drawn from families after that, and with --replay one of these is tried again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.cli.options import PACKAGES
from patchgrad.errors import ConfigError, PatchgradError

if TYPE_CHECKING:
    from patchgrad.contracts import Capabilities, Sandboxes
    from patchgrad.testing.attacks import Finding as AttackFinding
    from patchgrad.testing.attacks import Suite

TITLES = {"sandbox": "attacks on the sandbox", "grader": "attacks on the grader", "drawn": "drawn attacks"}

WORDS = {
    "network": "the agent has no network",
    "processes": "the number of its processes is limited",
    "memory": "its memory is limited",
    "disk": "its disk is limited",
    "pid_namespace": "it sees no process of this machine",
    "seal": "sealed files, such as hidden tests, are out of its reach",
    "fork": "a sandbox can be opened again at any turn",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: does it hold, what to say about it, and can a run do without it?"""

    name: str
    holds: bool
    note: str
    needed: bool = True


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--attacks", action="store_true", help="attack the sandbox and the grader; takes about a minute")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="N", help="with --attacks: draw further attacks for so long")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="what is drawn: the same on every machine (default 0)")
    parser.add_argument("--replay", metavar="FAMILY/INDEX", help="with --attacks: show this drawn attack of the seed, and try it alone")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="with --cluster: also try the ranks and replicas that it names")
    parser.add_argument("--scale", metavar="SCALE", help="the machine that the recipe is sized for")
    parser.add_argument("--cluster", metavar="WHERE", help="look at the machines of this cluster: auto, an address, or local:3")
    parser.add_argument("--json", action="store_true", help="the findings as one JSON object, on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Look, tell, and exit with 1 where training could not start."""
    if arguments.attacks:
        return attacked(arguments)
    if arguments.seconds or arguments.replay:
        raise ConfigError("--seconds and --replay say which attacks are tried: add --attacks.")
    if arguments.cluster:
        from patchgrad.cli.cluster.checked import checked

        return checked(arguments.cluster, arguments.recipe, arguments.scale, arguments.json)
    if arguments.recipe or arguments.scale:
        raise ConfigError("A recipe is looked at on a cluster: add --cluster, or see what it takes of this machine by patchgrad plan.")
    parts = {"Packages": packages(), "The sandbox of a run": sandbox(), "What this host offers": host()}
    found = [finding for part in parts.values() for finding in part]
    ready = all(finding.holds or not finding.needed for finding in found)
    if arguments.json:
        print(json.dumps({"ready": ready, "findings": [asdict(finding) for finding in found]}))
        return 0 if ready else 1
    print(f"Python {platform.python_version()} on {platform.system()}, {os.cpu_count()} cores")
    for title, part in parts.items():
        print(f"\n{title}")
        for finding in part:
            word = "yes" if finding.holds else "NO " if finding.needed else "no "
            print(f"  {word}  {finding.name:<44} {finding.note}".rstrip())
    print(
        "\nThis machine can train: patchgrad train smoke" if ready else "\nTraining cannot start here until the lines with NO are mended."
    )
    return 0 if ready else 1


def packages() -> list[Finding]:
    """Is every package of the extra `train` installed? Looked up without importing it."""
    found = []
    for name in PACKAGES:
        try:
            found.append(Finding(f"{name} is installed", True, version(name)))
        except PackageNotFoundError:
            found.append(Finding(f"{name} is installed", False, "pip install 'patchgrad[train]'"))
    return found


def sandbox() -> list[Finding]:
    """What the sandbox of this host enforces, and whether one truly opens."""
    from patchgrad.sandboxes.bwrap import BwrapSandboxes

    try:
        boxes = BwrapSandboxes(cells=1)
        told = boxes.probe()
        asyncio.run(_try(boxes))
    except (PatchgradError, OSError) as error:
        return [Finding("a sandbox opens", False, str(error))]
    return [Finding("a sandbox opens", True, f"{told.name}; {'; '.join(told.notes)}"), *_enforced(told)]


def host() -> list[Finding]:
    """What this host offers; what is missing is told with what is done without it and how to get it, and stops nothing by itself."""
    from patchgrad.sandboxes.host import offers

    return [
        Finding(offer.name, offer.there, offer.found if offer.there else f"{offer.without}; to have it: {offer.advice}", needed=False)
        for offer in offers()
    ]


def _enforced(told: Capabilities) -> list[Finding]:
    return [Finding(words, getattr(told, name), "") for name, words in WORDS.items()]


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


def _tell(told: Mapping[str, Sequence[AttackFinding]], seed: int) -> None:
    """How much was held, and what brings each escape of what was drawn back."""
    from patchgrad.testing.attacks import by_family, escapes

    drawn = told.get("drawn", ())
    for family, (held, tried) in by_family(drawn).items():
        print(f"  {family:<12} {held} of {tried} held")
    for escape in escapes(drawn, seed):
        print(f"\nESCAPE  {escape}")
    totals = (f"{sum(one.held for one in found)} of {len(found)} {TITLES[name]} held" for name, found in told.items())
    print("\n" + ", ".join(totals))


def _tell_json(told: Mapping[str, Sequence[AttackFinding]], seed: int) -> None:
    from patchgrad.testing.attacks import by_family

    totals: dict[str, object] = {name: {"held": sum(one.held for one in found), "of": len(found)} for name, found in told.items()}
    if "drawn" in told:
        families = {family: {"held": held, "of": tried} for family, (held, tried) in by_family(told["drawn"]).items()}
        totals |= {"seed": seed, "families": families}
    listed = [{"name": one.name, "held": one.held, "note": one.note} for found in told.values() for one in found]
    print(json.dumps({"user": os.geteuid(), **totals, "attacks": listed}))


def _tried(name: str, suite: Suite, quiet: bool) -> list[AttackFinding]:
    """What comes of a suite on this host, told as it goes."""
    from patchgrad.sandboxes.bwrap import BwrapSandboxes
    from patchgrad.tasks.archive import pack, store
    from patchgrad.testing.attacks import FILES

    def tell(finding: AttackFinding) -> None:
        if not quiet:
            print(f"  {'held' if finding.held else 'NOT HELD'}  {finding.name}{'' if finding.held else ': ' + finding.note}", flush=True)

    if not quiet:
        print(f"{TITLES[name].capitalize()}:")
    with tempfile.TemporaryDirectory() as folder:
        repository = store(Path(folder), pack({path: text.encode() for path, text in FILES.items()}))
        return asyncio.run(suite(partial(BwrapSandboxes, cells=4), repository, on_finding=tell))


async def _try(boxes: Sandboxes) -> None:
    """One episode in small: a repository of one file, one command."""
    from patchgrad.errors import SandboxFault
    from patchgrad.tasks.archive import pack, store
    from patchgrad.values import Checks, Task

    try:
        with tempfile.TemporaryDirectory() as folder:
            repository = store(Path(folder), pack({"hello.txt": b"hello\n"}))
            opened = await boxes.open(Task("check", "", repository, Checks((), ())))
            answer = await opened.run("cat hello.txt")
            await opened.close()
        if answer.output.strip() != "hello":
            raise SandboxFault(f"a command in the sandbox answered {answer.output[:80]!r} ({answer.state}) instead of 'hello'")
    finally:
        await boxes.close()
