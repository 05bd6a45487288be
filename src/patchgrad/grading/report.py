"""What the report plugin wrote, believed only as far as its signatures reach. The other end is `grading_plugin/patchgrad_report.py`."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import Any

from patchgrad.contracts import Result
from patchgrad.values import Status

_RED = ("failed", "error")
_GREEN = ("passed", "xpassed", "xfailed")


@dataclass(frozen=True, slots=True)
class Copy:
    """How a test ended in one of its copies, at how many places something lied there, and how often it began and came to its end.

    Of a test of properties `examples` are some that hold, as the plugin writes them. `sources` say which functions of files that decide it
    uses: `"same of tests/helper.py"`. At the places `plain` it compared a plain value, and at those that are `hollow` an object that is
    equal to one, and none.
    """

    test: str
    number: int
    status: str
    lies: tuple[str, ...]
    runs: tuple[int, int]
    examples: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    hollow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of the tests. `complete` says that it came to its end and that all numbers agree; `note` why not, where that is known.

    `loaded` are the files of the repository that were imported by its end, `installed` the other modules of the first level, and `replaced`
    the functions of those that were watched and are others at the end, as far as the run itself tells the truth. Tests that were run in
    `copies` have no status.
    """

    __test__ = False
    statuses: dict[str, Status]
    collected: int
    complete: bool
    tamper: tuple[str, ...]
    note: str = ""
    loaded: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """How far a submission came whose patch applied."""
        return ("applied", *(("collected",) if self.collected else ()), *(("ran",) if self.complete else ()))


def read_report(result: Result, key: str) -> TestRun:
    """The statuses by test id, and what is wrong with the report.

    A line without a valid signature, out of order, or about a test that was told of before, is tamper evidence; so is a pytest that
    ends other than it began, a canary that does not fail, and a test that the submission skips or expects to fail. A run that ended
    early, or whose exit code does not fit its tests, is not `complete`.
    """
    statuses: dict[str, Status] = {}
    canaries: list[Status] = []
    copies: list[Copy] = []
    tamper: list[str] = []
    collected = awaited = uncollected = 0
    finish: dict[str, Any] = {}
    for position, line in enumerate(result.report.splitlines()):
        mac, _, text = line.partition(b" ")
        if finish or not hmac.compare_digest(mac, hmac.digest(key.encode(), text, "sha256").hex().encode()):
            tamper.append("wrote to the grader's report")
            break
        event = json.loads(text)
        if event["seq"] != position:
            tamper.append("left lines out of the grader's report")
            break
        match event["event"]:
            case "collected":
                collected, awaited = event["count"], event["canaries"]
            case "uncollected":
                uncollected += 1
            case "test" if event["id"] in statuses:
                tamper.append(f"ran {event['id']} twice")
            case "test":
                statuses[event["id"]] = event["status"]
            case "copy":
                began, ended = event["runs"]
                seen = {name: tuple(event[name]) for name in ("lies", "examples", "sources", "plain", "hollow")}
                copies.append(Copy(event["id"], event["number"], event["status"], runs=(began, ended), **seen))
            case "canary":
                canaries.append(event["status"])
            case "finish":
                finish = event
    tamper += [f"patched pytest: {name}" for name in finish.get("changed", ())]
    tamper += [f"skips tests, or expects them to fail, in {path}" for path in finish.get("evaded", ())]
    tamper += ["makes tests pass whatever they find"] * any(status in _GREEN for status in canaries)
    red = uncollected + sum(status in _RED for status in (*statuses.values(), *canaries))
    whole = result.state == "ok" and finish.get("exit") == result.exit_code == (1 if red else 0)
    complete = whole and finish["tests"] == len(statuses) == collected and len(canaries) == awaited
    loaded, installed, replaced = (tuple(finish.get(name, ())) for name in ("loaded", "installed", "replaced"))
    return TestRun(statuses, collected, complete, tuple(tamper), "", loaded, installed, replaced, tuple(copies))
