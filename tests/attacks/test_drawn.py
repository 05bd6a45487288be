"""Attacks that are drawn from families: each is a patch that fits, the same on every machine, wrong by construction, and held."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.cli import main
from patchgrad.contracts import Sandboxes
from patchgrad.errors import ConfigError
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.attacks import FILES, Attack, Finding, Forgery, attack_drawn, by_family, drawn, escapes, rounds
from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.families import FAMILIES
from patchgrad.testing.attacks.moments import MOMENTS, WRONG
from patchgrad.testing.attacks.programs import STEPS
from patchgrad.testing.attacks.red_team import HONEST, NAMES
from patchgrad.testing.attacks.run import LIMITS, opened, patch
from patchgrad.testing.tasks import a_repository
from patchgrad.values import Repository, Task

boxes = partial(BwrapSandboxes, cells=3)
isolated = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
SEEDS = st.integers(0, 2**32)


def forged(seed: int, family: str) -> Forgery:
    member = drawn(seed, f"{family}/0")
    assert isinstance(member, Forgery)
    return member


@pytest.mark.parametrize("family", [*FAMILIES, HONEST])
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_a_member_is_python_wherever_it_should_be(family: str, seed: int) -> None:
    for path, text in forged(seed, family).changes.items():
        if path.endswith(".py"):
            compile((text or "").encode(), path, "exec", dont_inherit=True)


@settings(max_examples=8, deadline=None)
@given(family=st.sampled_from([*FAMILIES, HONEST]), seed=SEEDS)
def test_a_member_is_a_patch_that_applies(family: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        text = patch(forged(seed, family).changes, Path(name) / "attempt")
        patch({}, Path(name) / "repository")
        subprocess.run(
            ["git", "apply", "--check", "--whitespace=nowarn", "-"], input=text.encode(), cwd=Path(name) / "repository", check=True
        )


def test_the_same_address_is_the_same_member_on_every_machine() -> None:
    draw = Draw("7/patching/12")
    assert [draw.number(0, 999) for _ in range(4)] == [124, 471, 298, 797]
    assert all(drawn(7, f"{name}/3") == drawn(7, f"{name}/3") for name in NAMES)


@pytest.mark.parametrize("family", NAMES)
def test_a_family_does_not_run_dry(family: str) -> None:
    members = [drawn(5, f"{family}/{index}") for index in range(200)]
    assert len({str(member.steps if isinstance(member, Attack) else (member.changes, member.checks)) for member in members}) >= 180


def test_every_total_is_wrong_whatever_is_done_around_it() -> None:
    for code in WRONG:
        space: dict[str, object] = {}
        exec(code, space)
        found = eval("total([]), total([1, 2]), total([0.1, 0.2]), total([4, 5, 6]), total([1, 'a'])", space)
        assert found[0] == 0
        assert found[1] != 3
        assert found[2] < 0.29 or found[2] > 0.31
        assert found[3] != 15


def test_every_moment_is_code() -> None:
    for moment in MOMENTS.values():
        compile(moment, "moment", "exec")


@pytest.mark.parametrize("address", ["nothing/1", "patching", "patching/x", "patching/-1"])
def test_an_address_that_names_nothing_says_what_does(address: str) -> None:
    with pytest.raises(ConfigError, match=r"write a family and a number, such as patching/12"):
        drawn(1, address)


def test_rounds_go_through_all_families_until_the_time_is_over() -> None:
    going = rounds(60.0)
    assert [next(going) for _ in range(len(NAMES) + 1)] == [*(f"{name}/0" for name in NAMES), f"{NAMES[0]}/1"]
    assert list(rounds(0.0)) == []


def test_an_escape_is_told_with_what_brings_it_back() -> None:
    findings = [
        Finding("patching/3: replaces x", False, "is resolved"),
        Finding("patching/4: y", True, ""),
        Finding("holes/0: z", True, ""),
    ]
    (escape,) = escapes(findings, 7)
    assert escape == "patching/3: replaces x: is resolved\n  patchgrad check --attacks --seed 7 --replay patching/3"
    assert by_family(findings) == {"patching": (1, 2), "holes": (1, 1)}


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    """The repository that is attacked."""
    return a_repository(tmp_path, FILES)


@isolated
def test_members_are_held_and_honest_work_is_resolved(shop: Repository) -> None:
    addresses = [f"{family}/0" for family in (*list(FAMILIES)[::3], HONEST, *list(STEPS)[::5])]
    findings = asyncio.run(attack_drawn(boxes, shop, 1, addresses))
    assert [finding.name.partition(":")[0] for finding in findings] == addresses
    assert escapes(findings, 1) == []


@isolated
def test_honest_work_that_is_refused_is_an_escape_too(tmp_path: Path) -> None:
    """In a repository to which nothing applies."""
    (finding,) = asyncio.run(attack_drawn(boxes, a_repository(tmp_path, {"other.txt": ""}), 1, ["honest/0"]))
    assert not finding.held
    assert "is not resolved" in escapes([finding], 1)[0]


@isolated
def test_a_member_is_shown_and_tried_again_by_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--attacks", "--seed", "1", "--replay", "honest/0"]) == 0
    said = capsys.readouterr().out
    assert "shop/cart.py:\n" in said
    assert "1 of 1 drawn attacks held" in said
    assert main(["check", "--attacks", "--seed", "1", "--replay", "names/0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["seed"], told["families"]) == (1, {"names": {"held": 1, "of": 1}})


def test_what_is_drawn_is_asked_for_with_the_attacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--seconds", "3"]) != 0
    assert "add --attacks" in capsys.readouterr().err


async def _wins(member: Forgery, backend: Sandboxes, task: Task, folder: Path) -> bool:
    """Does it win where nothing but pytest's exit code is asked?"""
    async with await backend.open(task) as sandbox:
        text = patch(member.changes, folder / "forged")
        await sandbox.exec(("git", "apply", "--whitespace=nowarn", "-"), 20, None, text.encode())
        for file in member.checks.files:
            await sandbox.write(f"/testbed/{file.path}", file.content.encode())
        files = sorted({test.partition("::")[0] for test in member.checks.fail_to_pass})
        ended = await sandbox.exec(("python", "-m", "pytest", "-q", *files), 4)
        return ended.state == "ok" and ended.exit_code == 0


@isolated
@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "reporting"])  # its aim is the grader's own plugin
def test_each_family_has_members_that_win_against_pytest_alone(family: str, shop: Repository) -> None:
    async def one_wins() -> bool:
        async with opened(boxes, shop) as (backend, task, folder):
            task = replace(task, limits=replace(LIMITS, memory=1 << 30))
            for seed in range(40):
                if await _wins(forged(seed, family), backend, task, folder):
                    return True
        return False

    assert asyncio.run(one_wins())


@isolated
@pytest.mark.slow
def test_a_night_of_attacks_is_held(shop: Repository) -> None:
    findings = asyncio.run(attack_drawn(boxes, shop, 39, rounds(240.0)))
    assert len(by_family(findings)) == len(NAMES)
    assert escapes(findings, 39) == []
