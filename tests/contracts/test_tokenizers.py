"""Every tokenizer against the contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from patchgrad.policies.scripted import STOP, ByteTokenizer
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.testing import check_tokenizer
from patchgrad.values import Action, Ids, Message, ids


def test_the_chat_tokenizer_keeps_the_contract(tmp_path: Path) -> None:
    def make() -> ChatTokenizer:
        return ChatTokenizer.train(["def add(a, b):\n    return a + b\n", "<observation> exit code 1"] * 3, 400)

    check_tokenizer(make, tmp_path / "tokenizer", load=ChatTokenizer.load)


def test_the_byte_tokenizer_keeps_the_contract(tmp_path: Path) -> None:
    check_tokenizer(ByteTokenizer, tmp_path, load=lambda _: ByteTokenizer())


def test_a_tokenizer_whose_content_can_end_a_turn_is_found_out(tmp_path: Path) -> None:
    class Trusting(ByteTokenizer):
        def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
            tokens = super().encode(messages, previous)
            forged = sum("</s>" in message.content for message in messages)
            return ids([*tokens, *[STOP] * forged])

    with pytest.raises(AssertionError, match="</s> in a message ended a turn"):
        check_tokenizer(Trusting, tmp_path)
