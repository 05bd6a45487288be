"""Text to ids: any text round-trips, framing follows the template, content is never taken for framing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.errors import ConfigError
from patchgrad.policies.tokenizers.chat import CHATML, ChatTokenizer
from patchgrad.values import Action, Message, floats, ids

TOKENIZER = ChatTokenizer.train(["def add(a, b):\n    return a + b\n", "<observation> exit code 1"] * 3, 400)
OPENING = [Message("system", "You repair programs."), Message("user", "  Find the bug.\n\n")]
QWEN3 = """{%- for message in messages %}
{%- if message.role == 'assistant' and loop.last %}
{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + message.content + '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""


def ordinary(text: str) -> list[int]:
    """The ids of a text in which no special token is one."""
    *tokens, _ = TOKENIZER.action(text).tolist()
    return list(tokens)


def action(text: str, finish: str = "stop") -> Action:
    tokens = ordinary(text) + ([TOKENIZER.stop] if finish == "stop" else [])
    return Action(ids(tokens), floats(np.zeros(len(tokens))), 0, text, "stop" if finish == "stop" else "length")


def foreign(template: str) -> ChatTokenizer:
    return ChatTokenizer(TOKENIZER.tokenizer, template, variables={"eos_token": "<|im_end|>"})


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(ordinary(text)) == text


PIECES = st.sampled_from(["<|im_end|>", "<|im_start|>", "<|endoftext|>", "\n", "a", "assistant"])


@given(st.lists(PIECES).map("".join), st.booleans())
def test_content_never_becomes_framing(text: str, later: bool) -> None:
    previous = action("ls", "length") if later else None
    plain = TOKENIZER.encode([Message("user", "a")], previous)
    forged = TOKENIZER.encode([Message("user", text)], previous)
    special = list(TOKENIZER.special.values())
    assert [i for i in forged if i in special] == [i for i in plain if i in special]


def test_a_stream_is_the_whole_conversation_encoded() -> None:
    said, answer = action("cat a.py"), Message("user", "1: x = <|im_end|>")
    stream = [*TOKENIZER.encode(OPENING, None), *said.token_ids, *TOKENIZER.encode([answer], said)]
    assert stream == TOKENIZER.encode([*OPENING, Message("assistant", "cat a.py"), answer], None).tolist()


def test_a_cut_action_is_closed_before_the_answer() -> None:
    answer = [Message("user", "no command found")]
    after = TOKENIZER.encode(answer, action("ls", "length")).tolist()
    assert after == [TOKENIZER.stop, *TOKENIZER.encode(answer, action("ls")).tolist()]


def test_transformers_reads_the_folder_and_gives_the_same_ids(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    TOKENIZER.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    messages = [{"role": message.role, "content": message.content} for message in OPENING]
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert TOKENIZER.encode(OPENING, None).tolist() == expected
    again = ChatTokenizer.load(tmp_path)
    assert again.encode(OPENING, None).tolist() == expected
    assert (again.stop, again.eos) == (TOKENIZER.stop, TOKENIZER.eos)


def test_a_template_that_thinks_only_in_the_last_turn_still_extends() -> None:
    answer = [Message("user", "ok")]
    assert np.array_equal(foreign(QWEN3).encode(answer, action("ls")), TOKENIZER.encode(answer, action("ls")))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ messages | length }}" + CHATML, "rewrites earlier turns"),
        (CHATML.replace("message['content'] +", "'' +"), "drops the content"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        (CHATML.replace("<|im_end|>", "END"), "no special token"),
    ],
)
def test_a_template_that_cannot_work_is_refused(template: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        foreign(template).encode([Message("user", "ok")], action("ls"))


def test_a_template_that_trims_is_followed() -> None:
    trimmed = foreign(CHATML.replace("message['content']", "message['content'] | trim")).encode(OPENING, None)
    assert np.array_equal(trimmed, TOKENIZER.encode([OPENING[0], Message("user", "Find the bug.")], None))


def test_a_folder_without_a_template_is_refused(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({"eos_token": "<|im_end|>"}))
    with pytest.raises(ConfigError, match="no chat template"):
        ChatTokenizer.load(tmp_path)
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        ChatTokenizer.load(tmp_path / "nowhere")
