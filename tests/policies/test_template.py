"""Chat templates give the ids that transformers gives, turn by turn, or are refused by what they do."""

from __future__ import annotations

import json
import pickle
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.errors import ConfigError
from patchgrad.policies.tokenizers.chat import CHATML, ChatTokenizer
from patchgrad.values import Action, Message, floats

OURS = ChatTokenizer.train(["def add(a, b):\n    return a + b\n", "<observation> exit code 1"] * 3, 400)
SYSTEM, QUESTION = Message("system", " You repair programs.\n"), Message("user", "\n  Find 'it'.\n\n\t")
ANSWER, OBSERVATION = "ls <a> </think> b", Message("user", "\n\n total 3\n\tx  \n")
AGAIN = [Message("assistant", ANSWER), Message("user", "  {{ x }} \x0b\n")]
LINE = "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools' + (tools | tojson) + '<|im_end|>\\n' }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string
        and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content.split('</think>')[-1].lstrip('\\n') if '</think>' in message.content else message.content %}
        {%- if loop.index0 > ns.last_query_index and loop.last %}
            {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""


def each(line: str, before: str = "", behind: str = OPEN) -> str:
    """A template that writes each message so."""
    return before + "{% for message in messages %}" + line + "{% endfor %}" + behind


def doing(what: str) -> str:
    """A template that does so with a content."""
    return each(LINE.replace("message.content", f"(message.content{what})"))


def asked(line: str, before: str = "") -> str:
    """A template that writes each message so which is not the assistant's."""
    return each("{% if message.role == 'assistant' %}" + LINE + "{% else %}" + line + "{% endif %}", before)


@cache
def theirs() -> Any:
    transformers = pytest.importorskip("transformers")
    with TemporaryDirectory() as folder:
        OURS.save(Path(folder))
        return transformers.AutoTokenizer.from_pretrained(folder)


def expected(template: str, messages: list[Message], **more: Any) -> list[int]:
    told = [{"role": message.role, "content": message.content} for message in messages]
    found = theirs().apply_chat_template(told, chat_template=template, add_generation_prompt=True, return_dict=False, **more)
    return list(found)


def ours(template: str, tokenizer: ChatTokenizer = OURS) -> ChatTokenizer:
    return ChatTokenizer(tokenizer.tokenizer, template, variables=tokenizer.template.variables)


def action(finish: str = "stop") -> Action:
    tokens = OURS.action(ANSWER)[: None if finish == "stop" else -1]
    return Action(tokens, floats(np.zeros(len(tokens))), 0, ANSWER, "stop" if finish == "stop" else "length")


TEMPLATES = {
    "tools is not none": each(LINE, "{% if tools is not none %}{{ tools | tojson }}{% endif %}"),
    "tools in json": each(LINE, "{{ tools | tojson }}{{ documents }}"),
    "documents is defined": each(LINE, "{% if documents is defined and documents is none %}Nothing to read.{% endif %}"),
    "documents is none": each(LINE, "{% if documents is none %}None.{% endif %}"),
    "json": asked("{{ '<|im_start|>' + (message | tojson(indent=2)) + '\\n' + message.content + '<|im_end|>' }}"),
    "json in a row": asked("{{ '<|im_start|>' + (message.role | tojson(true, none, (',', ':'))) + message.content + '<|im_end|>' }}"),
    "generation": each(
        "{{ '<|im_start|>' + message.role + '\\n' }}{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}"
    ),
    "generation in a branch": each(
        "{%- if message.role == 'assistant' -%} <|im_start|>assistant\n {%- generation -%} {{ '\\n' + message.content }}<|im_end|>"
        " {%- endgeneration -%}\n{%- else %}" + LINE + "{% endif %}"
    ),
    "generation is a scope": asked("{% set x = 'a' %}{% generation %}{% set x = 'b' %}{{ x }}{% endgeneration %}{{ x }}" + LINE),
    "break": each("{% if loop.index > 40 %}{% break %}{% endif %}" + LINE),
    "rstrip": doing(".rstrip()"),
    "lstrip": doing(".lstrip()"),
    "strip newlines": doing(".strip('\\n')"),
    "strip blanks": doing(".rstrip(' ')"),
    "strip letters": doing(".strip('Y.')"),
    "trim": doing(" | trim"),
    "trim some": doing(" | trim('\\n')"),
    "replace": doing(".replace('\\t', '    ')"),
    "lines": doing(".splitlines() | join('\\n')"),
    "first letter": doing("[:1] + message.content[1:]"),
    "indented": doing(" | indent(2)"),
    "by content": asked("{% if 'total' in message.content %}Output:{% endif %}" + LINE),
    "twice": asked("{{ '<|im_start|>' + message.content + '\\n' + message.content + '<|im_end|>' }}"),
    "system first": each(
        "{% if message.role == 'system' %}{{ message.content + '\\n' }}{% else %}" + LINE + "{% endif %}", "{{ '<|im_start|>rules\\n' }}"
    ),
    "no newline": each(LINE.replace("\\n", ""), "", OPEN.replace("\\n", "")),
    "starts with text": each(LINE, "A chat. "),
    "qwen3": QWEN3,
    "chatml": CHATML,
    "undefined": each(LINE, "{{ bos_token }}{{ nothing_of_that_name }}"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_gives_the_ids_of_transformers(name: str) -> None:
    template = TEMPLATES[name]
    tokenizer = ours(template)
    for first in ([SYSTEM, QUESTION], [QUESTION], [QUESTION, *AGAIN]):
        assert tokenizer.encode(first, None).tolist() == expected(template, first)
    said = OURS.action("x")
    turn = Action(said, floats(np.zeros(len(said))), 0, "x", "stop")
    for first in ([SYSTEM, QUESTION], [QUESTION]):
        stream = [*tokenizer.encode(first, None), *said, *tokenizer.encode([OBSERVATION], turn)]
        assert stream == expected(template, [*first, Message("assistant", "x"), OBSERVATION])


@pytest.mark.parametrize("form", ["%d %b %Y", "%Y-%m-%d", "%H:%M on %A", "%B %-d, %Y"])
def test_a_template_is_told_the_same_day_in_the_form_that_it_asks_for(form: str) -> None:
    template = each(LINE, "{{ '<|im_start|>' + strftime_now('" + form + "') }}")
    told = template.replace(f"strftime_now('{form}')", repr(datetime(2025, 1, 1).strftime(form)))
    assert ours(template).encode([QUESTION], None).tolist() == expected(told, [QUESTION])


MOVED = (
    "{% for message in messages %}{% if message.role != 'system' %}"
    "{% if CONDITION and messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}" + LINE + "{% endif %}{% endfor %}" + OPEN
)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (MOVED.replace("CONDITION", "loop.last"), "rewrites earlier turns"),
        (MOVED.replace("CONDITION", "message.role == 'user' and loop.index0 >= messages|length - 2"), "rewrites earlier turns"),
        (MOVED.replace("CONDITION", "loop.index > 2"), "rewrites earlier turns|differently"),
        (asked("{{ '[Round ' ~ loop.index ~ ']' }}" + LINE), "differently behind other turns"),
        (asked("{% if messages[0].role == 'system' and not loop.first %}#{% endif %}" + LINE), "differently behind other turns"),
        (each(LINE).replace("in messages", "in messages[-8:]"), "rewrites earlier turns|drops"),
        (asked("{% if loop.index > 12 %}#{% endif %}" + LINE), "differently behind other turns"),
        (each(LINE, "{{ messages | length }}"), "rewrites earlier turns"),
        (each("{% if message.role != 'assistant' %}" + LINE + "{% endif %}"), "drops the content of messages of the role assistant"),
        (each(LINE.replace("message.content", "message.content[:3]")), "drops the content"),
        (each(LINE, "{{ 1 / 0 }}"), "does not accept this conversation"),
        (each(LINE, "{{ messages[99].content.x }}"), "does not accept this conversation"),
        (each(LINE, "{{ nothing() }}"), "does not accept this conversation"),
        (each(LINE, "{{ [].pop() }}"), "does not accept this conversation"),
        (each(LINE, "{% video %}"), "does not accept this conversation: .*video"),
        (each(LINE, "{% generation %}"), "does not accept this conversation"),
        (each(LINE, "{% for i in range(10**9) %}{% endfor %}"), "does not accept this conversation"),
        (each(LINE, "{{ raise_exception('no chat') }}"), "no chat"),
    ],
)
def test_a_template_that_no_stream_can_follow_is_refused_before_the_first_turn(tmp_path: Path, template: str, words: str) -> None:
    OURS.save(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(ConfigError, match=words):
        ChatTokenizer.load(tmp_path)


def test_a_blank_that_a_template_puts_before_an_answer_is_the_assistants_own() -> None:
    answer, other = "{{ ' ' + message.content + '<|im_end|>' }}", "{{ '<|im_start|>' + message.content }}"
    template = each("{% if message.role == 'assistant' %}" + answer + "{% else %}" + other + "{% endif %}", "", "")
    tokenizer = ours(template)
    said = tokenizer.action("x")
    assert tokenizer.decode(said.tolist()) == " x<|im_end|>"
    turn = Action(said, floats(np.zeros(len(said))), 0, " x", "stop")
    stream = [*tokenizer.encode([QUESTION], None), *said, *tokenizer.encode([OBSERVATION], turn)]
    assert tokenizer.decode(stream) == "<|im_start|>" + QUESTION.content + " x<|im_end|><|im_start|>" + OBSERVATION.content
    with pytest.raises(ConfigError, match="rewrites earlier turns"):
        ours(template.replace("' ' + message", "' x' + message")).encode([OBSERVATION], turn)


def test_a_template_without_a_system_message_serves_those_who_send_none() -> None:
    template = each("{% if message.role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + LINE)
    tokenizer = ours(template)
    assert tokenizer.encode([QUESTION], None).tolist() == expected(template, [QUESTION])
    assert tokenizer.encode([OBSERVATION], action()).tolist() == ours(CHATML).encode([OBSERVATION], action()).tolist()
    with pytest.raises(ConfigError, match="no system"):
        tokenizer.encode([SYSTEM, QUESTION], None)


PIECES = ["<|im_end|>", "<|im_start|>", "<", "|", ">", "<|im_", "end|>", "im_end", "\n", " ", "a", "\U000f0000", "</think>"]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PIECES)).map("".join),
    st.sampled_from(["chatml", "rstrip", "trim", "qwen3"]),
    st.sampled_from([None, "stop", "length"]),
)
def test_content_is_never_taken_for_framing_and_is_all_there(text: str, name: str, finish: str | None) -> None:
    tokenizer = ours(TEMPLATES[name])
    previous = None if finish is None else action(finish)
    tokens, plain = (tokenizer.encode([Message("user", content)], previous).tolist() for content in (text, "a"))
    special = set(tokenizer.special.values())
    assert [token for token in tokens if token in special] == [token for token in plain if token in special]
    kept = {"rstrip": text.rstrip(), "trim": text.strip()}.get(name, text)
    assert f"user\n{kept}<|im_end|>" in tokenizer.decode(tokens)


def test_content_completes_no_special_token_that_a_template_begins() -> None:
    tokenizer = ours(asked("{{ '<|im_start|>' + message.role + '\\n<' + message.content + '|im_end|><|im_end|>' }}"))
    for forged in ("|im_end|> x", "x <", " |im_end|> <|im_end|>< \n"):
        plain, found = (tokenizer.encode([Message("user", content)], None).tolist() for content in ("a", forged))
        assert found.count(tokenizer.stop) == plain.count(tokenizer.stop)
        assert f"<{forged}|im_end|><|im_end|>" in tokenizer.decode(found)


def test_a_copy_that_was_pickled_renders_the_same() -> None:
    tokenizer = ours(QWEN3)
    tokenizer.encode([QUESTION], None)
    copy = pickle.loads(pickle.dumps(tokenizer))
    forged = [Message("user", "<|im_end|>")]
    assert np.array_equal(copy.encode(forged, None), tokenizer.encode(forged, None))


# --- tokenizers ----------------------------------------------------------------------------------


def changed(path: Path, file: str, changes: dict[str, Any]) -> None:
    told = json.loads((path / file).read_text()) if (path / file).is_file() else {}
    (path / file).write_text(json.dumps(told | changes))


def agree(path: Path, *, template: str = CHATML) -> ChatTokenizer:
    """What the folder gives, compared with transformers for a conversation of two turns."""
    transformers = pytest.importorskip("transformers")
    (path / "chat_template.jinja").write_text(template)
    read, other = ChatTokenizer.load(path), transformers.AutoTokenizer.from_pretrained(path)
    messages = [SYSTEM, QUESTION, Message("assistant", "x"), OBSERVATION]
    for some in (messages[:2], messages[1:2], messages):
        told = [{"role": message.role, "content": message.content} for message in some]
        theirs = other.apply_chat_template(told, add_generation_prompt=True, return_dict=False)
        assert read.encode(some, None).tolist() == list(theirs)
    turn = Action(read.action("x"), floats(np.zeros(len(read.action("x")))), 0, "x", "length")
    whole, added = (read.encode(*case).tolist() for case in ((messages, None), (messages[3:], turn)))
    assert whole[-len(added) :] == added, "what is appended is the end of the whole conversation"
    read.save(path / "again")
    assert np.array_equal(ChatTokenizer.load(path / "again").encode(messages, None), read.encode(messages, None)), "saved as it was read"
    return read


TRUNCATION = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
PADDING = {
    "strategy": {"Fixed": 64}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"
}  # fmt: skip


@pytest.mark.parametrize("saved", [{"truncation": TRUNCATION}, {"padding": PADDING}, {"truncation": TRUNCATION, "padding": PADDING}])
def test_lengths_that_were_saved_with_a_tokenizer_cut_and_fill_nothing(tmp_path: Path, saved: dict[str, Any]) -> None:
    OURS.save(tmp_path)
    changed(tmp_path, "tokenizer.json", saved)
    assert agree(tmp_path).fingerprint == ChatTokenizer(OURS.tokenizer, CHATML, variables=OURS.template.variables).fingerprint


def sentencepiece(path: Path, pre_tokenizer: dict[str, Any] | None, normalizer: dict[str, Any] | None = None) -> None:
    """A tokenizer with a mark before words, as sentencepiece has it, with a few merges over single characters and bytes."""
    from tokenizers import Tokenizer, models

    letters = sorted(set("".join(TEMPLATES.values())) | set(map(chr, range(33, 127))) | {"▁", "\n"})
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    vocabulary = {token: i for i, token in enumerate(["<unk>", *bytes_, *letters, "▁u", "▁us", "us", "▁Y", "▁a", "▁F"])}
    merges = [("▁", "u"), ("▁u", "s"), ("u", "s"), ("▁", "Y"), ("▁", "a"), ("▁", "F")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    whole = json.loads(tokenizer.to_str()) | {"pre_tokenizer": pre_tokenizer, "normalizer": normalizer}
    whole["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    ]}  # fmt: skip
    path.mkdir(exist_ok=True)
    (path / "tokenizer.json").write_text(json.dumps(whole))
    changed(path, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"})
    changed(path, "tokenizer_config.json", {"additional_special_tokens": ["<|im_start|>", "<s>"]})


METASPACE = {"type": "Metaspace", "replacement": "▁", "split": False}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@pytest.mark.parametrize("template", [CHATML, each(LINE, "A chat. "), each(LINE, " "), each(LINE, "<s>")])
@pytest.mark.parametrize("nested", [False, True])
def test_the_mark_before_a_word_is_where_the_scheme_puts_it(tmp_path: Path, scheme: str, template: str, nested: bool) -> None:
    one = METASPACE | {"prepend_scheme": scheme, "split": nested}
    split = {"type": "Split", "pattern": {"String": "\n"}, "behavior": "Isolated", "invert": False}
    sentencepiece(tmp_path, {"type": "Sequence", "pretokenizers": [split, one]} if nested else one)
    agree(tmp_path, template=template)


def test_a_normaliser_that_marks_words_is_followed(tmp_path: Path) -> None:
    prepend = {"type": "Prepend", "prepend": "▁"}
    sentencepiece(tmp_path, None, {"type": "Sequence", "normalizers": [prepend, REPLACE]})
    agree(tmp_path)


def special(content: str, **flags: bool) -> dict[str, Any]:
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


@pytest.mark.parametrize("flags", [{"rstrip": True}, {"lstrip": True}, {"lstrip": True, "rstrip": True}])
def test_special_tokens_that_take_the_blanks_beside_them_take_them(tmp_path: Path, flags: dict[str, bool]) -> None:
    OURS.save(tmp_path)
    added = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    changed(tmp_path, "tokenizer.json", {"added_tokens": [token | flags for token in added]})
    read = ChatTokenizer.load(tmp_path)
    whole = read.template.opening([SYSTEM, QUESTION])
    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert read.encode([SYSTEM, QUESTION], None).tolist() == plain.encode(whole, add_special_tokens=False).ids


def test_special_tokens_that_are_none_beside_a_letter_are_refused_where_the_template_has_them(tmp_path: Path) -> None:
    OURS.save(tmp_path)
    added = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    others = [token | {"single_word": token["content"] == "<|endoftext|>"} for token in added]
    changed(tmp_path, "tokenizer.json", {"added_tokens": others})
    agree(tmp_path)
    changed(tmp_path, "tokenizer.json", {"added_tokens": [token | {"single_word": True} for token in added]})
    with pytest.raises(ConfigError, match=r"<\|im_start\|> is no special token beside a letter"):
        ChatTokenizer.load(tmp_path)


def test_special_tokens_that_are_found_in_normalised_text_are_refused_where_that_differs(tmp_path: Path) -> None:
    sentencepiece(tmp_path, None, {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, REPLACE]})
    tokens = {str(i): special(name, normalized=True) for i, name in ((400, "<|im_start|>"), (401, "<|im_end|>"))}
    changed(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": tokens})
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    with pytest.raises(ConfigError, match="reads the text beside its special tokens"):
        ChatTokenizer.load(tmp_path)


def test_tokens_that_only_the_settings_name_are_added_as_transformers_does(tmp_path: Path) -> None:
    OURS.save(tmp_path)
    added = {str(OURS.vocabulary): special("<|sep|>"), str(OURS.vocabulary + 1): special("<think>", special=False)}
    changed(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": added, "sep_token": "<|sep|>", "bos_token": "<s>"})
    changed(tmp_path, "tokenizer_config.json", {"extra_special_tokens": ["<|more|>"], "add_bos_token": True})
    read = agree(tmp_path, template=asked("<|sep|><|more|><think>" + LINE, "{{ bos_token }}{{ add_bos_token }}"))
    assert {"<|sep|>", "<|more|>", "<s>"} < read.special.keys()


def test_an_older_map_of_special_tokens_goes_before_the_settings(tmp_path: Path) -> None:
    OURS.save(tmp_path)
    changed(tmp_path, "special_tokens_map.json", {"bos_token": special("<|endoftext|>"), "eos_token": "<|im_end|>"})
    changed(tmp_path, "tokenizer_config.json", {"bos_token": "<s>"})
    agree(tmp_path, template=each(LINE, "{{ bos_token }}"))
    changed(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": {"0": special("<|endoftext|>")}})
    agree(tmp_path, template=each(LINE, "{{ bos_token }}"))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("tokenizer.json", "{", "not a whole tokenizer"),
        ("tokenizer.json", '{"model": 3}', "not a whole tokenizer"),
        ("tokenizer_config.json", "{", "not valid JSON"),
        ("tokenizer_config.json", "[]", "not a JSON object"),
        ("tokenizer_config.json", '{"chat_template": [{"name": "default"}]}', "no template"),
        ("tokenizer_config.json", '{"chat_template": [3]}', "no name"),
        ("tokenizer_config.json", '{"chat_template": 3}', "no chat template"),
        ("tokenizer_config.json", '{"chat_template": [{"name": "rag", "template": "x"}]}', "no chat template"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"a": {}}}', "ids as keys"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"1": "a"}}', "no content"),
        ("tokenizer_config.json", '{"split_special_tokens": true}', "split_special_tokens"),
        ("special_tokens_map.json", "nothing", "not valid JSON"),
        ("chat_template.jinja", b"\xff", "not UTF-8"),
    ],
)
def test_a_file_that_is_broken_is_named(tmp_path: Path, file: str, content: str | bytes, words: str) -> None:
    OURS.save(tmp_path)
    (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=words):
        ChatTokenizer.load(tmp_path)


def test_merges_that_are_drawn_at_random_are_refused(tmp_path: Path) -> None:
    OURS.save(tmp_path)
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    changed(tmp_path, "tokenizer.json", {"model": model | {"dropout": 0.1}})
    with pytest.raises(ConfigError, match="at random"):
        ChatTokenizer.load(tmp_path)
