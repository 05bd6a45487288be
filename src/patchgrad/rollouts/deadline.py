"""No wait without a deadline: when a sandbox that does not answer counts as broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from patchgrad.contracts import patience
from patchgrad.errors import SandboxFault

GRACE = 30.0  # seconds beyond a command's own deadline


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Past this the sandbox counts as broken, not the command as slow: a command of so many `seconds` has its own, shorter deadline."""
    try:
        async with asyncio.timeout(patience(seconds) + GRACE):
            yield
    except TimeoutError:
        raise SandboxFault(f"The sandbox did not answer {what} within {patience(seconds) + GRACE:.0f} seconds.") from None
