"""can this machine train and isolate an agent? What works here, what does not, and what helps

Imports what training needs, in another process, looks at memory, disks and GPUs, opens one sandbox and runs a command in it. Of what does
not work it says what that means, and after > the one command that helps:

  patchgrad check
  patchgrad check --attacks
  patchgrad check --attacks --seconds 600 --seed 7
  patchgrad check --attacks --replay patching/12 --seed 7
  patchgrad check --cluster auto
  patchgrad check mine.toml --cluster auto
  patchgrad check --json

yes: it works; NO: it does not, and training cannot start; no: it does not, and training can do without.

With --cluster each machine of a cluster that makes attempts opens one. With a recipe its trainer's ranks also make a step together, and
each of its replicas takes over published weights, all about a small network.

With --attacks hostile programs try the sandbox and forged patches the grader, each bounded so that a host that does not hold it takes no
harm. With --seconds more of them are drawn from families after that, and with --replay one of these is tried again.
"""

from __future__ import annotations

import argparse
import json
import shutil

from patchgrad import __version__
from patchgrad.cli.check.finding import Finding, page, ready
from patchgrad.cli.check.hardware import machine, system
from patchgrad.cli.check.installed import Packages, packages, versions
from patchgrad.cli.check.isolation import host, sandbox
from patchgrad.errors import ConfigError

WIDEST = 110
"""Columns of the page in a terminal that has more."""


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
        from patchgrad.cli.check.attacks import attacked

        return attacked(arguments)
    if arguments.seconds or arguments.replay:
        raise ConfigError("--seconds and --replay say which attacks are tried: add --attacks.")
    if arguments.cluster:
        from patchgrad.cli.cluster.checked import checked

        return checked(arguments.cluster, arguments.recipe, arguments.scale, arguments.json)
    if arguments.recipe or arguments.scale:
        raise ConfigError("A recipe is looked at on a cluster: add --cluster, or see what it takes of this machine by patchgrad plan.")
    parts = looked()
    findings = [finding for part in parts.values() for finding in part]
    if arguments.json:
        print(json.dumps({"ready": ready(findings), "findings": [finding.row() for finding in findings]}))
        return 0 if ready(findings) else 1
    wide = min(WIDEST, shutil.get_terminal_size().columns)
    print("\n".join([f"patchgrad {__version__}", *page(parts, wide)]))
    missing = [finding for finding in findings if finding.verdict == "does not"]
    if not missing:
        print("\nThis machine can train: patchgrad train smoke")
        return 0
    print("\nTraining cannot start here until what has NO before it is mended.")
    if helps := next((finding.help for finding in missing if finding.help), ""):
        print(f"Begin with: {helps}")
    return 1


def looked() -> dict[str, list[Finding]]:
    """What was found, by its title; on another system than Linux nothing else is looked at."""
    if not all(finding.holds for finding in system()):
        return {"This machine": system()}
    tried = Packages()  # it takes the longest, and begins first
    boxes, offers = sandbox(), host()
    found, built = tried.told()
    return {
        "Packages that training needs": packages(found, built),
        "This machine": machine(built, versions().get("torch", "")),
        "The sandbox of a run": boxes,
        "What this host offers to sandboxes": offers,
    }
