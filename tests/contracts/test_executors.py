"""Every executor against the contract."""

from __future__ import annotations

import asyncio

from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.testing import check_executor


def test_the_local_executor_keeps_the_contract() -> None:
    asyncio.run(check_executor(LocalExecutor))
