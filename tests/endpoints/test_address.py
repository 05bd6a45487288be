"""An address and a key are refused before anything is asked, in a sentence, where HTTP cannot carry them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.endpoints import Chat
from patchgrad.endpoints.address import checked_address, checked_key
from patchgrad.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1/vé", "the character U\\+00E9"),
        ("http://bücher.example/v1", "the character U\\+00FC"),
        ("http://127.0.0.1/v1\n", "the character U\\+000A"),
        ("http://127.0.0.1/v 1", "the character U\\+0020"),
        ("http://127.0.0.1/v\udce9", "the character U\\+DCE9"),
        ("http://[::1/v1", "Invalid IPv6 URL"),
        ("http://127.0.0.1:80x/v1", "Port could not be cast"),
        ("http://127.0.0.1:99999/v1", "Port out of range"),
        ("http://127.0.0.1:0/v1", "name the address of one"),
        ("http://models..example/v1", "label empty or too long"),
        (f"http://{'m' * 64}.example/v1", "label too long|label empty or too long"),
        ("http:///v1", "name the address of one"),
        ("localhost:8000/v1", "name the address of one up to /v1, as in http://localhost:8000/v1"),
        ("ftp://127.0.0.1/v1", "name the address of one"),
        ("http://127.0.0.1/v1?key=1", "it goes up to /v1, without"),
        ("http://127.0.0.1/v1#part", "it goes up to /v1, without"),
    ],
)
def test_an_address_that_cannot_be_asked_is_refused_by_its_reason(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        Chat(url, "m")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "url", ["http://me:secret@127.0.0.1/v1", "http://me:secret@[::1/v1", "http://127.0.0.1/v1?key=secret", "me:secret@x"]
)
def test_what_may_be_secret_in_an_address_is_not_printed(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Chat(url, "m")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://localhost:8000/v1/", "https://models.example/v1", "http://[::1]:8000/v1", "HTTP://x/v%C3%A9"])
def test_an_address_that_can_be_asked_is_taken(url: str) -> None:
    assert Chat(url, "m").url == f"{url.rstrip('/')}/chat/completions"


@pytest.mark.parametrize("key", ["abc\r", "abc\n", " abc", "a bc", "ключ", "abc\x00", "abc\u200b", "abc\udc80", "\ufeffabc"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_printed(key: str) -> None:
    with pytest.raises(ConfigError, match=r"The key in PATCHGRAD_KEY cannot be sent: character [1-4] of [45]") as refused:
        Chat("http://127.0.0.1/v1", "m", key)
    assert key.strip() not in str(refused.value)


def test_a_models_name_that_no_report_could_print_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^'m.udce9' is no model's name"):
        Chat("http://127.0.0.1/v1", "m\udce9")


@given(st.text(st.characters(), max_size=40))
def test_nothing_but_a_sentence_comes_of_any_address_and_any_key(text: str) -> None:
    for call in (lambda: checked_address(text), lambda: checked_address(f"http://{text}"), lambda: checked_key(text)):
        with suppress(ConfigError):
            call()
