"""Text is made well formed where it comes in: what UTF-8 can hold stays, and nothing else is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchgrad.values import well_formed


@given(st.text(st.characters()))
def test_text_is_utf_8_and_what_was_is_as_it_was(text: str) -> None:
    found = well_formed(text)
    assert found.encode().decode() == found == well_formed(found)
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert found == text


def test_halves_that_belong_together_are_one_letter_and_others_are_marked() -> None:
    assert well_formed("\ud83d\ude00") == "\U0001f600"
    assert well_formed("a\ude00\ud83db\udce9") == "a\ufffd\ufffdb\ufffd"
    assert well_formed("\ufeffa") == "\ufeffa", "a mark at the beginning is text"
