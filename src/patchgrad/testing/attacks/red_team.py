"""Draws from the families until the time is over: forged patches, hostile programs, and honest repairs that have to be resolved.

    seed 7 -> patching/0, holes/0, ..., patching/1, holes/1, ...

A member is drawn from its seed, its family and its index alone, so that `7` and `patching/12` bring it back on any machine.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from patchgrad.contracts import Sandboxes
from patchgrad.errors import ConfigError
from patchgrad.testing.attacks.attack import Attack
from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.families import FAMILIES
from patchgrad.testing.attacks.honest import repair
from patchgrad.testing.attacks.patches import Forgery
from patchgrad.testing.attacks.programs import STEPS, program
from patchgrad.testing.attacks.run import Bench, Finding, Host, opened, try_program
from patchgrad.values import Repository

HONEST = "honest"
NAMES = (*FAMILIES, *STEPS, HONEST)


def drawn(seed: int, address: str) -> Forgery | Attack:
    """The member at this address, `"patching/12"`. Raises `ConfigError` for one that names no family."""
    family, _, index = address.partition("/")
    if family not in NAMES or not index.isdecimal():
        raise ConfigError(
            f"{address!r} names no drawn attack: write a family and a number, such as patching/12. Families: {', '.join(NAMES)}."
        )
    draw = Draw(f"{seed}/{address}")
    if family in STEPS:
        return program(family, draw)
    return repair(draw) if family == HONEST else FAMILIES[family](draw)


def shown(member: Forgery | Attack) -> str:
    """A member for people: its commands, or its files and the tests that it is judged by."""
    if isinstance(member, Attack):
        parts = {f"step {number}": step for number, step in enumerate(member.steps, 1)}
    else:
        parts = {path: text or "" for path, text in member.changes.items()}
        parts |= {f"{file.path}, hidden": file.content for file in member.checks.files}
    return "".join(f"{name}:\n{textwrap.indent(text.rstrip(), '    ')}\n" for name, text in parts.items())


def rounds(seconds: float) -> Iterator[str]:
    """Addresses, one of each family a round, until so many seconds have passed."""
    end = time.monotonic() + seconds
    for index in count():
        for family in NAMES:
            if time.monotonic() >= end:
                return
            yield f"{family}/{index}"


async def attack_drawn(
    backend: Callable[[], Sandboxes],
    repository: Repository,
    seed: int,
    addresses: Iterable[str],
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> list[Finding]:
    """Tries the members at these addresses against one backend and its grader; each finding's name begins with the address.

    `repository` holds `FILES`. What is not held is an escape: a forgery that is resolved, a program that the sandbox does not hold, or an
    honest repair that is not resolved.
    """
    findings = []
    async with opened(backend, repository) as (boxes, task, folder):
        host, bench = await Host.of(folder, boxes, task), Bench(boxes, task, folder)
        for address in addresses:
            member = drawn(seed, address)
            if isinstance(member, Attack):
                found = await try_program(boxes, task, member, host)
            else:
                found = await (bench.honest if address.startswith(HONEST) else bench.forged)(member)
            findings.append(replace(found, name=f"{address}: {found.name}"))
            on_finding(findings[-1])
    return findings


def by_family(findings: Sequence[Finding]) -> dict[str, tuple[int, int]]:
    """How many members of each family were held, and of how many: `{"patching": (11, 12)}`."""
    counts: dict[str, tuple[int, int]] = {}
    for finding in findings:
        family = finding.name.partition("/")[0]
        held, tried = counts.get(family, (0, 0))
        counts[family] = held + finding.held, tried + 1
    return counts


def escapes(findings: Sequence[Finding], seed: int) -> list[str]:
    """What was not held, each with the command that brings it back."""
    return [
        f"{finding.name}: {finding.note}\n  patchgrad check --attacks --seed {seed} --replay {finding.name.partition(':')[0]}"
        for finding in findings
        if not finding.held
    ]
