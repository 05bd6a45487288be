"""The attack suite against what this host has: every program held, every forgery unpaid, whoever starts it."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import patchgrad
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.attacks import FILES, GRADER, SANDBOX, Attack, Finding, Forgery, attack_grader, attack_sandbox, here
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.tasks import a_repository
from patchgrad.values import Repository

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
boxes = partial(BwrapSandboxes, cells=3)


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    """The repository that is attacked."""
    return a_repository(tmp_path, FILES)


def test_there_are_at_least_forty_programs_and_twenty_forgeries_of_different_names() -> None:
    assert len({attack.name for attack in SANDBOX}) == len(SANDBOX) >= 40
    assert len({forgery.name for forgery in GRADER}) == len(GRADER) >= 20


def test_every_program_is_held(shop: Repository) -> None:
    findings = asyncio.run(attack_sandbox(boxes, shop))
    assert len(findings) == len(here())
    assert [finding for finding in findings if not finding.held] == []


def test_every_forgery_is_unpaid_and_named(shop: Repository) -> None:
    async def both() -> list[Finding]:
        """Half of them beside the other half."""
        parts = await asyncio.gather(*(attack_grader(boxes, shop, GRADER[first::2]) for first in range(2)))
        return [finding for part in parts for finding in part]

    findings = asyncio.run(both())
    assert len(findings) == len(GRADER)
    assert [finding for finding in findings if not finding.held] == []


@pytest.mark.parametrize(
    ("attack", "says"),
    [
        (Attack("gets out", ("echo BREACH of something",)), "BREACH of something"),
        (Attack("is not tried", ("true",)), "was not tried"),
        (Attack("ends otherwise", ("sleep 9",), 0.3), "ended as 'timeout'"),
    ],
    ids=lambda value: value.name if isinstance(value, Attack) else "",
)
def test_an_attack_that_is_not_held_is_told(shop: Repository, attack: Attack, says: str) -> None:
    (finding,) = asyncio.run(attack_sandbox(boxes, shop, [attack]))
    assert not finding.held
    assert says in finding.note


def test_a_sandbox_that_isolates_nothing_does_not_pass(shop: Repository) -> None:
    mild = [attack for attack in SANDBOX if attack.name in ("links that lead out", "leave quotes open")]
    findings = asyncio.run(attack_sandbox(LocalSandboxes, shop, mild))
    assert not all(finding.held for finding in findings)


def test_a_forgery_that_pays_is_told(shop: Repository) -> None:
    repair = {"shop/cart.py": "def total(items):\n    return sum(items)\n"}
    (finding,) = asyncio.run(attack_grader(boxes, shop, [Forgery("an honest repair", repair, "")]))
    assert (finding.held, finding.note) == (False, "is resolved")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can reach; those of pytest are closed to others each time that a pytest starts."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    subprocess.run(["rm", "-rf", "--", folder], check=True)


@pytest.mark.slow
def test_the_suite_holds_for_an_ordinary_user_as_well(open_folder: Path) -> None:
    program = "/usr/bin/python3.11"  # an interpreter that everybody may run; the one of these tests may lie in somebody's home
    if os.geteuid() != 0 or not os.path.exists(program):
        pytest.skip("this test becomes another user, which needs root, and a Python for all")
    user, site = pwd.getpwnam("nobody"), Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(site / name, open_folder / "packages" / name)
    shutil.copytree(Path(patchgrad.__file__).parent, open_folder / "packages" / "patchgrad")
    for place in (open_folder, *open_folder.rglob("*")):
        os.chown(place, user.pw_uid, user.pw_gid, follow_symlinks=False)
    done = subprocess.run(
        [program, "-c", "import sys; from patchgrad.cli import main; sys.exit(main(['check', '--attacks', '--json']))"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(open_folder), "TMPDIR": str(open_folder), "PYTHONPATH": str(open_folder / "packages")},
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert [attack for attack in told["attacks"] if not attack["held"]] == []
    assert told["user"] == user.pw_uid
