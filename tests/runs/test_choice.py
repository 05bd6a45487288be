"""Which policy a stage hands on."""

from __future__ import annotations

import pytest

from patchgrad.evaluation import from_outcomes, versus
from patchgrad.runs.phases.choice import shown_worse
from patchgrad.values import Report


def solving(name: str, share: float, tasks: int = 64) -> Report:
    """The first tasks are solved in both attempts, the others in none."""
    return from_outcomes(name, {f"task {n:02}": (n < share * tasks,) * 2 for n in range(tasks)}, 2, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (0.5, 0.8, False),
        (0.5, 0.5, False),
        (0.5, 0.44, False),  # by as little chance alone may differ
        (0.5, 0.3, True),
        (0.0, 0.0, False),
    ],
)
def test_the_last_policy_is_handed_on_unless_it_is_shown_to_be_worse(before: float, after: float, worse: bool) -> None:
    assert shown_worse(versus(solving("before", before), solving("after", after))) == worse
