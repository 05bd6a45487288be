"""What the servers of this folder have in common: the token and the body of a request, and an answer as it is sent."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from patchgrad.agents.gateway.dialects import LONGEST, HttpAnswer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def brought(request: Request) -> str:
    """The token that a request brings; nothing where it brings none."""
    scheme, _, said = request.headers.get("authorization", "").partition(" ")
    return said.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")


def retried(request: Request) -> bool:
    """Does it say that it was asked before?"""
    return request.headers.get("x-stainless-retry-count", "0") not in ("", "0")


def fingerprint(body: bytes) -> str:
    """What tells one body from others."""
    return hashlib.blake2b(body).hexdigest()


async def body_of(request: Request) -> bytes | None:
    """The whole body; nothing where it is too long."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > LONGEST:
            return None
    return bytes(found)


def sent(answer: HttpAnswer) -> Response:
    """The answer as starlette sends it."""
    from starlette.responses import Response

    return Response(answer.body, answer.status, media_type=answer.kind)
