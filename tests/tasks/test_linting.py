"""A linted set: what is wrong is found, at the power that is claimed, and what is sound stays."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.cli import main
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.tasks.linting import LintOptions, Report, lint
from patchgrad.tasks.linting.chance import noticed, power, wilson
from patchgrad.tasks.linting.duplicates import fingerprint
from patchgrad.tasks.linting.filters import complexity, quality, references
from patchgrad.tasks.linting.leaks import look, readable
from patchgrad.tasks.probes import probes
from patchgrad.tasks.sets import QUARANTINE, Member, members, save, unified
from patchgrad.tasks.trees import first_state
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, Limits, Task, TestOutcome, Verdict

Spoken = pytest.CaptureFixture[str]
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

GOOD = """def total(prices):
    '''All of them.'''
    result = 0
    for price in prices:
        result = result + price
    return result
"""
NOTHING: Mapping[str, str] = {}
BAD = GOOD.replace("result + price", "result - price")
TESTS = (
    "from shop import total\n\n\ndef test_two():\n    assert total([1, 2]) == 3\n\n\ndef test_three():\n    assert total([1, 2, 4]) == 7\n"
)
KEPT = "\n\ndef test_none():\n    assert total([]) == 0\n"
REPORT = "In shop this goes wrong:\n\n    >>> total([1, 2])\n    -3\n\nExpected: `3`\n"


def member(folder: Path, name: str, extra: str = "", kept: tuple[str, ...] = (), files: Mapping[str, str] = NOTHING) -> Member:
    """A task of its own: the loop subtracts. `extra` are tests that must stay green, by name in `kept`."""
    tests = TESTS + KEPT + extra
    tree = {"shop.py": GOOD, "test_shop.py": tests, "pytest.ini": "[pytest]\npythonpath = .\n", **files}
    hidden = tests.replace("\n\ndef test_two():\n    assert total([1, 2]) == 3\n", "").replace(
        "\n\ndef test_three():\n    assert total([1, 2, 4]) == 7\n", ""
    )
    repository = a_repository(folder / "archives", tree)
    repository = replace(repository, patch=unified("shop.py", GOOD, BAD) + unified("test_shop.py", tests, hidden))
    to_keep = ("test_shop.py::test_none", *(f"test_shop.py::{test}" for test in kept))
    checks = Checks(
        ("test_shop.py::test_three", "test_shop.py::test_two"),
        to_keep,
        protected=("test_shop.py", "pytest.ini"),
        command=("pytest", "test_shop.py"),
        patch=unified("test_shop.py", hidden, tests),
    )
    tags = {"package": f"shop-{name}", "kind": "repair", "family": "op_swap", "level": "report", "split": "train"}
    task = a_task(f"shop.{name}", REPORT, repository, checks, limits=Limits(test_seconds=20.0), tags=tags)
    return Member(task, {"report": REPORT}, unified("shop.py", BAD, GOOD))


def hash_of(text: str) -> int:
    done = subprocess.run([sys.executable, "-c", f"print(hash({text!r}))"], env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True)
    return int(done.stdout)


def flaky(folder: Path) -> list[Member]:
    """One of each kind: the test that must stay green depends on what it should not."""
    plants = {
        "order": "\n\nSEEN = []\n\n\ndef test_first():\n    SEEN.append(1)\n\n\ndef test_after():\n    assert SEEN\n",
        "hash": f"\n\ndef test_after():\n    assert hash('shop') == {hash_of('shop')}\n",
        "time": f"\n\ndef test_after():\n    import time\n    assert abs(time.time() - {int(time.time())}) < 20 * 86400\n",
        "random": "\n\ndef test_after():\n    import random\n    assert random.random() < 0.5\n",
        "resource": (
            "\n\ndef test_after():\n    import time\n    wall, work = time.perf_counter(), time.process_time()\n"
            "    while time.process_time() - work < 0.4:\n        pass\n    assert time.perf_counter() - wall < 0.6\n"
        ),
    }
    return [member(folder, name, text, ("test_after",)) for name, text in plants.items()]


def linted(folder: Path, capsys: Spoken, *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["tasks", "lint", str(folder), "--json", *words])
    return code, json.loads(capsys.readouterr().out)


@needs_bwrap
def test_every_planted_flaky_test_is_found_and_the_sound_task_stays(tmp_path: Path, capsys: Spoken) -> None:
    save(tmp_path, [member(tmp_path, "sound"), *flaky(tmp_path)])
    code, told = linted(tmp_path, capsys, "--runs", "5", "--fix", "--concurrency", "2")  # five have one of each condition
    assert code == 0
    found = {one["task"]: {finding["kind"] for finding in one["findings"]} for one in told["checked"]}
    assert found.pop("shop.sound") <= {"duplicate"}
    assert all(kinds & {"flaky", "wrong"} for kinds in found.values()), found
    kept = {one.task.id for one in members(tmp_path)}
    assert kept <= {"shop.sound"}
    rows = [json.loads(line) for line in (tmp_path / QUARANTINE).read_text().splitlines()]
    assert {row["id"] for row in rows} | kept == {"shop.sound", *found}
    assert all(row["findings"] for row in rows)


@needs_bwrap
def test_wrong_weak_twice_and_evaluation_are_told_apart(tmp_path: Path, capsys: Spoken) -> None:
    sound = member(tmp_path, "a")
    useless = replace(member(tmp_path, "b"), repair=unified("shop.py", BAD, BAD.replace("return result", "return -result + 1")))
    alone = member(tmp_path, "c", files={"notes.txt": "c"})
    checks = replace(alone.task.checks, fail_to_pass=("test_shop.py::test_two",), pass_to_pass=())
    weak = replace(alone, task=replace(alone.task, checks=checks))
    theirs = member(tmp_path, "d", files={"notes.txt": "d"})
    theirs = replace(theirs, task=replace(theirs.task, tags={**theirs.task.tags, "package": "pallets/flask"}))
    save(tmp_path, [sound, useless, weak, theirs])
    code, told = linted(tmp_path, capsys, "--runs", "1")
    found = {one["task"]: {finding["kind"]: finding["evidence"] for finding in one["findings"]} for one in told["checked"]}
    assert code == 1
    assert found["shop.a"] == {}
    assert found["shop.b"]["wrong"].startswith("the solution does not pass: test_shop.py::test_three failed")
    assert "returns 3 wins" in found["shop.c"]["weak"]
    assert "shop.a" in found["shop.c"]["duplicate"]
    assert "flask" in found["shop.d"]["evaluation"]


@needs_bwrap
def test_an_interrupted_call_goes_on_where_it_was_and_the_next_one_looks_anew(tmp_path: Path) -> None:
    both = [member(tmp_path, "a"), member(tmp_path, "b", files={"notes.txt": "b"})]
    kept = tmp_path / "kept.jsonl"

    def judged(until: int) -> list[str]:
        """The tasks that were graded by a call that is ended after so many gradings; the solution wins, and nothing else."""
        seen: list[str] = []
        boxes = BwrapSandboxes(2, warm=True)

        async def judge(task: Task, patch: str, number: int) -> Verdict:
            seen.append(task.id)
            if len(seen) > until:
                raise KeyboardInterrupt
            repaired = tuple(TestOutcome(name, "fail_to_pass", "passed" if patch else "failed") for name in task.checks.fail_to_pass)
            kept = tuple(TestOutcome(name, "pass_to_pass", "passed") for name in task.checks.pass_to_pass)
            return Verdict(task.id, patch, ("applied", "collected", "ran"), (*repaired, *kept))

        async def work() -> None:
            try:
                await lint(both, judge, boxes, LintOptions(runs=2, probes=False, concurrency=1, kept=kept))
            finally:
                await boxes.close()

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(work())
        return seen

    assert judged(5) == ["shop.a"] * 4 + ["shop.b"] * 2
    assert judged(99) == ["shop.b"] * 4
    assert not kept.exists()
    assert judged(99) == ["shop.a"] * 4 + ["shop.b"] * 4


@needs_bwrap
def test_a_task_whose_archive_is_gone_or_whose_grading_goes_wrong_ends_no_call(tmp_path: Path) -> None:
    gone, odd, good = (member(tmp_path, name, files={"notes.txt": name}) for name in ("gone", "odd", "good"))
    Path(gone.task.repository.location).unlink()

    async def judge(task: Task, patch: str, number: int) -> Verdict:
        if task.id == odd.task.id:
            raise UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "invalid start byte")
        outcomes = [TestOutcome(name, "fail_to_pass", "passed" if patch else "failed") for name in task.checks.fail_to_pass]
        return Verdict(task.id, patch, ("applied", "collected", "ran"), tuple(outcomes))

    async def checked() -> Report:
        boxes = BwrapSandboxes(2)  # which have few packages to look through
        try:
            return await lint([gone, odd, good], judge, boxes, LintOptions(runs=1, probes=False, concurrency=1))
        finally:
            await boxes.close()

    report = asyncio.run(checked())
    faulty = [one.task for one in report.checked if any(finding.kind == "fault" for finding in one.findings)]
    assert faulty == [gone.task.id, odd.task.id]
    assert "cannot be read" in report.checked[0].findings[0].evidence


@needs_bwrap
def test_an_original_among_the_packages_is_a_leak(tmp_path: Path, capsys: Spoken) -> None:
    one = member(tmp_path, "a")
    tree = {**first_state(one.task.repository), "six.py": BAD.encode()}
    leaking = replace(
        one,
        task=replace(one.task, repository=a_repository(tmp_path / "archives", tree), packages=("six==1.17.0",)),
        repair=unified("six.py", BAD, GOOD),
    )
    save(tmp_path, [leaking])
    _, told = linted(tmp_path, capsys, "--runs", "1")
    evidence = [finding["evidence"] for finding in told["checked"][0]["findings"] if finding["kind"] == "leak"]
    assert "the packages of the sandbox have a module six" in evidence


@pytest.mark.parametrize(
    ("files", "statement", "words"),
    [
        ({}, REPORT, []),
        ({"copy/shop_old.py": GOOD}, REPORT, ["copy/shop_old.py has the repaired code as well"]),
        ({"build/lib/shop.py": BAD}, REPORT, ["the tree has build/lib/shop.py, which was built or left over"]),
        ({}, f"{REPORT}\nIt must be result = result + price of course.", ["tells the line 'result = result + price' of the repair"]),
        ({}, f"{REPORT}\nSee test_three.", ["tells the name 'test_three'"]),
        ({}, f"{REPORT}\nA case of op_swap.", ["tells the name 'op_swap'"]),
    ],
)
def test_what_can_be_read_is_named(tmp_path: Path, files: dict[str, str], statement: str, words: list[str]) -> None:
    one = replace(member(tmp_path, "a", files=files), levels={"report": statement})
    found = readable(one, first_state(one.task.repository), ["shop.py"])
    assert [word for word in words if not any(word in line for line in found)] == []
    assert bool(found) == bool(words)


@needs_bwrap
def test_a_copy_outside_of_the_tree_is_found_by_what_it_holds_in_a_wheel_as_well(tmp_path: Path) -> None:
    one = member(tmp_path, "a")
    files = first_state(one.task.repository)
    whole = BAD.replace("result - price", "result + price")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("vendored/__init__.py", whole)

    async def looked() -> tuple[list[str], list[str]]:
        boxes = BwrapSandboxes(2)
        try:
            async with await boxes.open(one.task) as box:
                clean = await look(box, one, files, ["shop.py"])
                await box.write("/tmp/other_name.py", whole.encode())
                await box.write("/tmp/some.whl", packed.getvalue())
                return clean, await look(box, one, files, ["shop.py"])
        finally:
            await boxes.close()

    clean, found = asyncio.run(looked())
    assert clean == []
    assert sorted(found) == ["/tmp/other_name.py has the repaired code", "/tmp/some.whl has the repaired code"]


def test_probes_empty_delete_and_answer_by_heart(tmp_path: Path) -> None:
    one = member(tmp_path, "a")
    found = probes(one.repair, first_state(one.task.repository), one.levels["report"])
    assert len(found) == 3
    emptied, deleted, by_heart = (changed["shop.py"] for changed in found.values())
    assert "\n    pass\n" in emptied
    assert "def total(prices):\n" not in deleted
    assert "\n    return 3\n" in by_heart
    assert len(probes(one.repair, first_state(one.task.repository))) == 2


def test_the_paper_s_filters_say_what_falls(tmp_path: Path) -> None:
    one = member(tmp_path, "a")
    assert not complexity(one)
    long = "".join(unified(f"m{n}.py", "", "x = 1\n") for n in range(8))
    assert complexity(replace(one, repair=long))[0].evidence == "its solution changes 8 lines in 8 files"
    assert complexity(replace(one, repair=unified("m.py", "", "x = 1\n" * 500)))
    assert not complexity(replace(one, repair=unified("m.py", "", "x = 1\n" * 499)))
    rated = {"column.meta": json.dumps({"llm_score": {"issue_text_score": 3.0, "test_score": 1}})}
    assert quality(replace(one, task=replace(one.task, tags=rated)))[0].evidence == "the worst score for issue_text_score"
    assert not quality(one)
    assert references(one, "E   ImportError: cannot import name 'x'")
    assert references(one, "AttributeError: module 'shop' has no attribute 'price'")
    assert not references(one, "AttributeError: 'int' object has no attribute 'unrelated'\nAssertionError: assert 3 == -3")


def test_a_repair_that_does_not_fit_or_a_tree_in_an_image_has_a_fingerprint_too(tmp_path: Path) -> None:
    one = member(tmp_path, "a")
    tree = first_state(one.task.repository)
    elsewhere = replace(one, repair=one.repair.replace("result - price", "no such line"))
    assert len({fingerprint(one, tree), fingerprint(elsewhere, tree), fingerprint(one, {})}) == 3
    assert fingerprint(one, {}) == fingerprint(one, {})


@given(st.integers(1, 500), st.data())
def test_an_interval_holds_its_rate_and_shrinks_with_runs(runs: int, data: st.DataObject) -> None:
    events = data.draw(st.integers(0, runs))
    low, high = wilson(events, runs)
    assert 0 <= low <= events / runs <= high <= 1
    wider = wilson(events, runs)[1] - wilson(events, runs)[0]
    narrower = wilson(4 * events, 4 * runs)[1] - wilson(4 * events, 4 * runs)[0]
    assert narrower < wider


def test_figures_of_chance_are_the_known_ones() -> None:
    assert wilson(0, 50)[1] == pytest.approx(0.0713, abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert power(0.1, 10) == pytest.approx(1 - 0.9**10 - 0.1**10)
    assert power(noticed(50), 50) == pytest.approx(0.95)
    assert noticed(3) == 1.0


@pytest.mark.parametrize("words", [["--runs", "0"], ["--sample", "0"], ["--concurrency", "0"]])
def test_a_plan_that_checks_nothing_is_refused(tmp_path: Path, capsys: Spoken, words: list[str]) -> None:
    save(tmp_path, [member(tmp_path, "a")])
    assert main(["tasks", "lint", str(tmp_path), *words]) == 2
    assert "at least 1" in capsys.readouterr().err


def test_no_clock_is_left_moved() -> None:
    assert "PATCHGRAD_CLOCK" not in os.environ
