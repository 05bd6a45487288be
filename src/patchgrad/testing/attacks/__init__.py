"""Attacks that anyone may run on their own host: hostile programs against a sandbox, and forged patches against the grader.

    repository = a_repository(folder, FILES)
    findings = asyncio.run(attack_sandbox(BwrapSandboxes, repository))
    assert all(finding.held for finding in findings), [f for f in findings if not f.held]

A program is held if it could not do what it tried, the sandbox's next command works, the next episode starts clean, and nothing of the host
has changed. A forgery is held if it is not resolved and the verdict says why. `patchgrad check --attacks` is this.
Besides these, `attack_drawn` tries members of families, which do not run dry: `drawn(7, "patching/12")` is one of them.
"""

from __future__ import annotations

from patchgrad.testing.attacks.attack import Attack
from patchgrad.testing.attacks.noticing import GRADER
from patchgrad.testing.attacks.patches import FILES, REPAIR, Forgery
from patchgrad.testing.attacks.red_team import attack_drawn, by_family, drawn, escapes, rounds, shown
from patchgrad.testing.attacks.run import SANDBOX, Finding, Suite, attack_grader, attack_sandbox, here

__all__ = [
    "FILES",
    "GRADER",
    "REPAIR",
    "SANDBOX",
    "Attack",
    "Finding",
    "Forgery",
    "Suite",
    "attack_drawn",
    "attack_grader",
    "attack_sandbox",
    "by_family",
    "drawn",
    "escapes",
    "here",
    "rounds",
    "shown",
]
