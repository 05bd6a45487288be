"""Every curriculum against the contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from patchgrad.learning.curricula import Pool
from patchgrad.testing import check_curriculum
from patchgrad.values import Task


def test_the_pool_keeps_the_contract() -> None:
    check_curriculum(lambda tasks: Pool(tasks, seed=3))


def test_a_curriculum_that_forgets_its_place_is_found_out() -> None:
    class Forgetful(Pool):
        def draw(self, n: int) -> list[Task]:
            return [next(self._endless) for _ in range(n)]

        def __init__(self, tasks: Sequence[Task]) -> None:
            super().__init__(tasks, 0)
            self._endless = _round(tasks)

    with pytest.raises(AssertionError, match="draws what the first one draws"):
        check_curriculum(Forgetful)


def _round(tasks: Sequence[Task]) -> Iterator[Task]:
    while True:
        yield from tasks


def test_a_curriculum_whose_state_goes_on_changing_is_found_out() -> None:
    class Shared(Pool):
        def state(self) -> dict[str, Any]:
            return super().state() | {"attempts": self._attempts}

    with pytest.raises(AssertionError, match="does not change a state"):
        check_curriculum(lambda tasks: Shared(tasks, seed=3))
