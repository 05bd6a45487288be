"""A chat template's text, rendered as transformers does: the same names, filters and tags, in a sandbox, on one day."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from patchgrad.errors import NotAccepted
from patchgrad.values import Message

TODAY = datetime(2025, 1, 1)  # the day that every template is told, so that a conversation has the same ids on every day


class Generation(Extension):
    """`{% generation %}` marks what an assistant said, for those who train on it; what it holds is rendered, in a scope of its own."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_held"), [], [], body).set_lineno(line)

    def _held(self, caller: Macro) -> str:
        return str(caller())


def render(text: str, messages: Sequence[Message], variables: Mapping[str, str], *, opens: bool) -> str:
    """The conversation, with the next turn opened or not, without tools and documents; `NotAccepted` where the template fails."""
    told = [{"role": message.role, "content": message.content} for message in messages]
    given = {"tools": None, "documents": None, **variables}
    try:
        return _compiled(text).render(messages=told, add_generation_prompt=opens, **given)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        raise NotAccepted(f"the chat template does not accept this conversation: {error}") from error


@lru_cache(16)
def _compiled(text: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = TODAY.strftime
    environment.filters["tojson"] = _json
    return environment.from_string(text)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
) -> str:
    """As transformers has it: jinja's own would spell `<` and others for a page."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
