"""Tokenizers and templates as strangers make them: each spells a conversation as transformers does, or is refused."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from patchgrad.errors import ConfigError
from patchgrad.policies.tokenizers.chat import CHATML, ChatTokenizer
from patchgrad.values import Message

START, STOP, BOS = "<|im_start|>", "<|im_end|>", "<s>"
SAID = "def add(a, b):\n    return a + b  # it's 12 of 345\n\n\n\tTraceback: <observation> exit code 1\n"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # as published
)
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
LINE = "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' }}"
OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
TEMPLATES = {
    "chatml": CHATML,
    "begins with a token": "{{ bos_token }}" + CHATML,
    "begins with text": "A chat. " + CHATML,
    "trims": CHATML.replace("message['content']", "(message['content'] | trim)"),
    "no line ends": CHATML.replace("\\n", ""),
    "blanks around tokens": CHATML.replace("'<|im_end|>'", "' <|im_end|> '"),
    "headers": (
        "{% for message in messages %}{{ '<|im_start|>' + message.role + '<s>\\n\\n' + message.content | trim + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant<s>\\n\\n' }}{% endif %}"
    ),
    "instructions": (
        "{% for message in messages %}{% if message.role == 'assistant' %}{{ ' ' + message.content + '<|im_end|>' }}"
        "{% else %}{{ '[INST] ' + message.content + ' [/INST]' }}{% endif %}{% endfor %}"
    ),
    "a system message that is there without one": (
        "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>' }}{% endif %}"
        "{% for message in messages %}" + LINE + "{% endfor %}" + OPEN
    ),
}


def sequence(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "Sequence", kind: parts}


def split(pattern: dict[str, str], behaviour: str = "Isolated") -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behaviour, "invert": False}


@cache
def bytelevel() -> str:
    return ChatTokenizer.train([SAID] * 3, 420).tokenizer.to_str()


@cache
def pieces(model: str) -> str:
    """Marked words with a byte for what is in no piece, as sentencepiece has them."""
    from tokenizers import Tokenizer, models

    letters = sorted({*map(chr, range(33, 127)), "▁", "\n", "é"})
    whole = ["<unk>", *(f"<0x{i:02X}>" for i in range(256)), *letters, "▁re", "re", "▁▁", "▁a", "it", "▁it"]
    if model == "unigram":
        tokenizer = Tokenizer(models.Unigram([(piece, -len(whole) / len(piece)) for piece in whole], 0, byte_fallback=True))
    else:
        merges = [("r", "e"), ("▁", "re"), ("▁", "▁"), ("▁", "a"), ("i", "t"), ("▁", "it")]
        vocabulary = {piece: number for number, piece in enumerate(whole)}
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    return tokenizer.to_str()


MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
NORMALIZERS = [None, {"type": "NFC"}, {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False}]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


@st.composite
def byte_levels(draw: st.DrawFn) -> dict[str, Any]:
    bytes_ = BYTES | {"add_prefix_space": draw(st.booleans()), "use_regex": draw(st.booleans())}
    before = draw(st.sampled_from([None, split({"Regex": LLAMA3}), {"type": "Digits", "individual_digits": True}, split({"String": "\n"})]))
    told: dict[str, Any] = json.loads(bytelevel())
    told["pre_tokenizer"] = sequence("pretokenizers", [before, bytes_]) if before else bytes_
    told["normalizer"] = draw(st.sampled_from(NORMALIZERS))
    told["model"]["ignore_merges"] = draw(st.booleans())
    return told


@st.composite
def marked(draw: st.DrawFn) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(pieces(draw(st.sampled_from(["bpe", "unigram"]))))
    if draw(st.booleans()):
        scheme = draw(st.sampled_from(["first", "always", "never"]))
        told["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": draw(st.booleans())}
        told["normalizer"] = draw(st.sampled_from(NORMALIZERS))
    else:
        first = [{"type": "Prepend", "prepend": "▁"}] if draw(st.booleans()) else []
        told["normalizer"] = sequence("normalizers", [*first, MARK])
    told["decoder"] = sequence(
        "decoders", [MARK | {"pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    )
    return told


@st.composite
def folders(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """The files of a tokenizer, with their special tokens and others that were added to it."""
    told = draw(st.one_of(byte_levels(), marked()))
    flags = {flag: draw(st.booleans()) and draw(st.booleans()) for flag in FLAGS}
    plain = dict.fromkeys(FLAGS, False)
    names = [(START, flags, True), (STOP, flags if draw(st.booleans()) else plain, True), (BOS, plain, True)]
    names += [(name, plain, False) for name in draw(st.sets(st.sampled_from(["<think>", "    ", "def", "é"])))]
    count = max([*told["model"]["vocab"].values()] if isinstance(told["model"]["vocab"], dict) else [len(told["model"]["vocab"]) - 1])
    known = told["model"]["vocab"] if isinstance(told["model"]["vocab"], dict) else {}
    told["added_tokens"] = [
        {"id": known.get(name, count + 1 + number), "content": name, "special": special, **own}
        for number, (name, own, special) in enumerate(names)
        if special or name not in known
    ]
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": STOP, "bos_token": BOS, "clean_up_tokenization_spaces": False}
    return {"tokenizer.json": told, "tokenizer_config.json": named}


TEXTS = st.text(st.sampled_from("aA1 2'é\u0301ﬁ\u00a0\n\t_▁.(🙂<>|"), max_size=9)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    first = [Message("system", draw(TEXTS))] if draw(st.booleans()) else []
    turns = [Message(role, draw(TEXTS)) for _ in range(draw(st.integers(0, 2))) for role in ("user", "assistant")]
    return [*first, *turns, Message("user", draw(TEXTS))]


def spelt(files: dict[str, dict[str, Any]], template: str, conversation: list[Message]) -> tuple[list[int] | None, list[int]]:
    """By patchgrad, nothing where it refuses, and by transformers."""
    transformers = pytest.importorskip("transformers")
    with TemporaryDirectory() as name:
        for file, content in files.items():
            (Path(name) / file).write_text(json.dumps(content))
        (Path(name) / "chat_template.jinja").write_text(template)
        told = [{"role": message.role, "content": message.content} for message in conversation]
        other = transformers.AutoTokenizer.from_pretrained(name)
        theirs = [*other.apply_chat_template(told, add_generation_prompt=True, return_dict=False)]
        try:
            return ChatTokenizer.load(Path(name)).encode(conversation, None).tolist(), theirs
        except ConfigError:
            return None, theirs


@settings(max_examples=150, deadline=None)
@given(files=folders(), template=st.sampled_from([*TEMPLATES]), conversation=conversations())
def test_a_strangers_tokenizer_spells_a_conversation_as_transformers_does_or_is_refused(
    files: dict[str, dict[str, Any]], template: str, conversation: list[Message]
) -> None:
    ours, theirs = spelt(files, TEMPLATES[template], conversation)
    event("refused" if ours is None else "spelt")
    assert ours is None or ours == theirs


@pytest.mark.parametrize("template", [*TEMPLATES])
@pytest.mark.parametrize("before", [None, split({"Regex": LLAMA3})], ids=["words", "llama 3"])
def test_what_models_of_the_family_have_is_spelt_and_not_refused(before: dict[str, Any] | None, template: str) -> None:
    told: dict[str, Any] = json.loads(bytelevel())
    if before:
        told["pre_tokenizer"] = sequence("pretokenizers", [before, BYTES | {"use_regex": False}])
    told["added_tokens"].append(told["added_tokens"][0] | {"id": 420, "content": BOS})
    files = {"tokenizer.json": told, "tokenizer_config.json": {"eos_token": STOP, "bos_token": BOS}}
    ours, theirs = spelt(files, TEMPLATES[template], [Message("system", " Repair.\n"), Message("user", SAID)])
    assert ours == theirs
