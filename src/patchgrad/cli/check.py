"""can this machine isolate an agent, and is everything installed that training needs?

Opens one sandbox, runs a command in it, and says in plain words what holds here, and what to do about what does not:

  patchgrad check
  patchgrad check --attacks
  patchgrad check --json

With --attacks hostile programs try the sandbox and forged patches the grader, each bounded so that a host that does not hold it
takes no harm.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.errors import PatchgradError

if TYPE_CHECKING:
    from patchgrad.contracts import Capabilities, Sandboxes

PACKAGES = ("torch", "safetensors", "tokenizers", "jinja2", "pyarrow")
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
    parser.add_argument("--json", action="store_true", help="the findings as one JSON object, on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Look, tell, and exit with 1 where training could not start."""
    if arguments.attacks:
        return attacked(arguments.json)
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


def attacked(as_json: bool) -> int:
    """Run the attack suite, tell as it goes, and exit with 1 where something was not held."""
    from patchgrad.sandboxes.bwrap import BwrapSandboxes
    from patchgrad.tasks.archive import pack, store
    from patchgrad.testing import attacks

    (opens, *_) = sandbox()
    if not opens.holds:
        print(f"The attacks need a sandbox that opens, and none does: {opens.note}", file=sys.stderr)
        return 1

    def tell(finding: attacks.Finding) -> None:
        if not as_json:
            print(f"  {'held' if finding.held else 'NOT HELD'}  {finding.name}{'' if finding.held else ': ' + finding.note}", flush=True)

    boxes = partial(BwrapSandboxes, cells=4)
    counts: dict[str, tuple[int, int]] = {}
    told: list[attacks.Finding] = []
    for name, suite in (("sandbox", attacks.attack_sandbox), ("grader", attacks.attack_grader)):
        if not as_json:
            print(f"Attacks on the {name}:")
        with tempfile.TemporaryDirectory() as folder:
            repository = store(Path(folder), pack({path: text.encode() for path, text in attacks.FILES.items()}))
            findings = asyncio.run(suite(boxes, repository, on_finding=tell))
        counts[name] = sum(finding.held for finding in findings), len(findings)
        told += findings
    held = all(finding.held for finding in told)
    if as_json:
        listed = [{"name": finding.name, "held": finding.held, "note": finding.note} for finding in told]
        totals = {name: {"held": good, "of": total} for name, (good, total) in counts.items()}
        print(json.dumps({"user": os.geteuid(), **totals, "attacks": listed}))
    else:
        print("\n" + ", ".join(f"{good} of {total} attacks on the {name} held" for name, (good, total) in counts.items()))
    return 0 if held else 1


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
