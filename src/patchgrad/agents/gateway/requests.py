"""What the servers of this folder have in common: the token and the body of a request, and an answer as it is sent."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from patchgrad.agents.gateway.dialects import LONGEST, HttpAnswer, Posted, posted, refused

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


async def body_of(request: Request) -> bytes | None:
    """The whole body; nothing where it is too long."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > LONGEST:
            return None
    return bytes(found)


async def read(request: Request) -> tuple[Posted, str] | HttpAnswer:
    """What a request asks and what tells it from others, or why it cannot be answered."""
    path, body = request.url.path, await body_of(request)
    if body is None:
        return refused(path, f"A request has at most {LONGEST >> 20} MiB.", 413)
    asked = posted(path, body)
    return asked if isinstance(asked, HttpAnswer) else (asked, hashlib.blake2b(path.encode() + b" " + body).hexdigest())


def sent(answer: HttpAnswer) -> Response:
    """The answer as starlette sends it."""
    from starlette.responses import Response

    return Response(answer.body, answer.status, media_type=answer.kind)
