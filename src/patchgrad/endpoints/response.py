"""What an HTTP response means: an answer, a reason to ask again, or a refusal.

Servers differ in where they say that something failed. The status counts, and where that is 200 the code of an error in the body.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from patchgrad.endpoints.address import EXAMPLE, KEY
from patchgrad.errors import ContextFault, EndpointRefused
from patchgrad.values import Usage, well_formed

_PASSING = frozenset({408, 409, 425, 429, *range(500, 600)})
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|(?:maximum|model'?s) context length|available context size"
    r"|(?:prompt|input|request)[^.]{0,60}(?:too long|longer than the model|exceeds the (?:maximum|context))",
    re.IGNORECASE,
)
_ADVICE = {401: f"put its key into {KEY}", 403: f"put its key into {KEY}", 404: "name the address up to /v1, and a model that it serves"}
_ENDED_OTHERWISE = ("tool_calls", "function_call", "content_filter")  # the protocol's endings that are neither "stop" nor "length"
_MOST = 1 << 31  # tokens; a count beyond is none


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, whether it came to an end, and its tokens, if the server counted them.

    `instead` is in the server's words what it answered with instead of text, or what ended the text: `tool_calls`, `content_filter`,
    `reasoning_content`; `nothing` where there is nothing at all.
    """

    text: str
    finish: Literal["stop", "length"]
    usage: Usage | None
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """A reason to ask once more, `after` so many seconds where the server says when, and as long as there is time if `patient`.

    A page that stands in for an endpoint is gone later, where there was one. Who gets it as the first response has the wrong address, which
    is the `refusal`.
    """

    reason: str
    after: float | None = None
    patient: bool = False
    refusal: EndpointRefused | None = None


def judge(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Answer | Again:
    """What a response means. Raises `ContextFault` where the conversation is too long, and `EndpointRefused` for what asking again cannot
    mend.
    """
    if 300 <= status < 400:
        return _elsewhere(url, status, headers.get("Location") or "")
    told = _parsed(body)
    failed = _failure(told)
    if 200 <= status < 300:
        if failed is None:
            return _answered(told) or _foreign(url, status, headers, body)
        status = _code(failed) or 502
    words = _words(failed if failed is not None else told, body)
    if _TOO_LONG.search(body.decode(errors="replace")):
        raise ContextFault(f"{url} says that the conversation is too long: {words}")
    reason = f"it answered {status}: {words}"
    if status in _PASSING and b"insufficient_quota" not in body:
        return Again(reason, _seconds(headers.get("Retry-After")), status == 429)
    refusal = EndpointRefused(f"{url} answered {status}: {words}; {_ADVICE.get(status, 'change what it refuses')}.", status)
    if status == 404 and told is None:  # a gateway's own page, while what is behind it starts anew
        return Again(reason, refusal=refusal)
    raise refusal


def _parsed(body: bytes) -> Any:
    """The body as JSON, or `None`. Bytes that are no Unicode cost a letter and not the answer."""
    try:
        return json.loads(body.decode(json.detect_encoding(body), "replace"))
    except (ValueError, RecursionError):  # the latter where brackets are nested a thousand times
        return None


def _failure(told: Any) -> Any:
    """What says in a body that something failed, wherever it stands: in place of the answer, as the answer, or in the answer's place."""
    if not isinstance(told, dict):
        return None
    choice = _first(told)
    inside = choice.get("error") if isinstance(choice, dict) else None
    return told.get("error") or (told if told.get("object") == "error" else None) or inside or None


def _code(failed: Any) -> int | None:
    """The HTTP status that an error names: `{"code": "429"}` -> 429; none for words such as `server_error`."""
    said = [failed.get(name) for name in ("code", "status", "status_code")] if isinstance(failed, dict) else []
    numbers = [int(code) for code in said if isinstance(code, int) or (isinstance(code, str) and re.fullmatch("[0-9]{3}", code))]
    return next((number for number in numbers if 400 <= number < 600), None)


def _answered(told: Any) -> Answer | Again | None:
    """The answer in a body; `None` where it is no chat completion at all."""
    choice = _first(told)
    message = choice.get("message") if isinstance(choice, dict) else None
    if isinstance(choice, dict) and isinstance(message, dict):
        return _answer(told, choice, message) or Again("an answer whose message is no text")
    return Again("an answer without a message") if isinstance(told, dict) and told.get("choices") == [] else None


def _foreign(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Again:
    kind = " ".join(filter(None, (headers.get("Content-Type"), headers.get("Content-Encoding")))) or "something"
    reason = f"it answered {status} with {printable(kind)} that is no chat completion ({_words(None, body)})"
    return Again(reason, refusal=EndpointRefused(f"{url} is no endpoint: {reason}; {EXAMPLE}.", status))


def _answer(told: Mapping[str, Any], choice: Mapping[str, Any], message: Mapping[str, Any]) -> Answer | None:
    text, ended = _text(message.get("content")), choice.get("finish_reason")
    if text is None:
        return None
    others = [name for name, held in message.items() if held and name not in ("role", "content")] if not text.strip() else []
    if ended in _ENDED_OTHERWISE and ended not in others:
        others.insert(0, ended)
    instead = ", ".join(others) or ("" if text.strip() else "nothing")
    return Answer(text, "length" if ended == "length" else "stop", _usage(told.get("usage")), printable(instead)[:80])


def _text(content: Any) -> str | None:
    """Text as it stands, or in parts, of which those that are no text are left out."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return well_formed(content or "") if isinstance(content, str | None) else None


def _usage(counted: Any) -> Usage | None:
    """What the server counted; a count that cannot be one is none."""
    if not isinstance(counted, dict):
        return None
    read, said = counted.get("prompt_tokens"), counted.get("completion_tokens")
    return Usage(read, said) if type(read) is type(said) is int and 0 < read < _MOST and 0 <= said < _MOST else None


def _first(told: Any) -> Any:
    choices = told.get("choices") if isinstance(told, dict) else None
    return choices[0] if isinstance(choices, list) and choices else None


def _elsewhere(url: str, status: int, location: str) -> Again:
    """A redirection, which is not followed: a question that is posted would arrive without its body, and a key where it is not meant to."""
    try:
        target = printable(urllib.parse.urljoin(url, location)) if location else ""
    except ValueError:
        target = printable(location)
    reason = f"it answered {status} and points {f'to {target}' if target else 'nowhere'}"
    advice = f"if that is the endpoint, name it as {target.removesuffix('/chat/completions')}" if target else EXAMPLE
    return Again(reason, refusal=EndpointRefused(f"{url} is no endpoint: {reason}; {advice}.", status))


def _words(told: Any, body: bytes) -> str:
    """The server's own words in one line: those of an error, or of a page without its tags."""
    message = told.get("message") or told.get("detail") if isinstance(told, dict) else told
    text = (message if isinstance(message, str) else body.decode(errors="replace"))[:10_000]
    if text.lstrip().startswith("<"):
        text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    return printable(" ".join(text.split())[:300]) or "nothing"


def printable(text: str) -> str:
    """Words of a stranger's for a terminal: what would act on it, such as an escape, is shown as U+FFFD."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _seconds(after: str | None) -> float | None:
    """`Retry-After`, which is a number of seconds or a date; `None` where it names no time that is to come."""
    if not after:
        return None
    try:
        seconds = float(after)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if seconds > 0 and math.isfinite(seconds) else None
