"""SWE-bench's rules in their version-5 form, for live runs and recorded ones alike: statuses by test -> outcomes of the expected tests.

A fail-to-pass test holds when it passed or failed as expected (xfail), a pass-to-pass test also when it was skipped; a test that no
line tells of failed. Both in `TestOutcome.satisfied`. What a submission is worth is full only where every expected test holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from patchgrad.values import Checks, Status, TestOutcome, Verdict

_KINDS: Mapping[Status, str] = {"passed": "holds", "xfailed": "holds", "skipped": "skipped"}


def outcomes(checks: Checks, statuses: Mapping[str, Status]) -> tuple[TestOutcome, ...]:
    """An outcome for each expected test, fail-to-pass first, in the order of the lists."""
    return (
        *(TestOutcome(test, "fail_to_pass", status_of(test, statuses), checks.strict) for test in checks.fail_to_pass),
        *(TestOutcome(test, "pass_to_pass", status_of(test, statuses), checks.strict) for test in checks.pass_to_pass),
    )


def status_of(test: str, statuses: Mapping[str, Status]) -> Status:
    """How an expected test ended; `missing` if nothing tells.

    676 ids of SWE-bench Verified were cut at a space among their options (`test_b[(1,`). For such an id, one with more `[` than `]`,
    the tests that begin with it stand, if they agree: `{"test_b[(1, 2)]": "passed", "test_b[(1, 3)]": "failed"}` -> `missing`.
    """
    if test in statuses:
        return statuses[test]
    if test.count("[") <= test.count("]"):
        return "missing"
    found = [status for name, status in statuses.items() if name.startswith(test)]
    return found[0] if len({_KINDS.get(status, "fails") for status in found}) == 1 else "missing"


def shares(verdict: Verdict) -> tuple[float, float]:
    """The parts of the fail-to-pass and of the pass-to-pass tests that hold; an empty list holds as a whole."""
    return _share(verdict, "fail_to_pass"), _share(verdict, "pass_to_pass")


def _share(verdict: Verdict, expected: Literal["fail_to_pass", "pass_to_pass"]) -> float:
    held = [test.satisfied for test in verdict.tests if test.expected == expected]
    return sum(held) / len(held) if held else 1.0
