"""The tokenizer that a GGUF file tells, as the `tokenizer.json` of transformers; one that is not known by name is refused.

What a file calls `gpt2` is byte-pair merges over bytes, and `llama` the pieces of sentencepiece with their scores. How text is cut before
merges is not in the file, only the name of a way (`tokenizer.ggml.pre`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from patchgrad.errors import ConfigError
from patchgrad.networks.settings import Settings

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BLANK = "\u2581"  # what sentencepiece writes for one
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _by(pattern: str) -> pre_tokenizers.PreTokenizer:
    cut = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _digits() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


CUTS: Mapping[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "gpt-2": _gpt2,
    "smollm": _digits,
    "starcoder": _digits,
    "llama-bpe": lambda: _by(_LLAMA3),
    "qwen2": lambda: _by(_QWEN2),
    "deepseek-r1-qwen": lambda: _by(_QWEN2),
}
"""How text is cut, by the names of llama.cpp."""
_COMPOSED = {"qwen2", "deepseek-r1-qwen"}  # they read a letter and its accent as one
_WHOLE = {"llama-bpe"}  # a piece of text that is a token is that token, whatever merges would make of it


def read(said: Settings) -> Tokenizer:
    """Raises `ConfigError` for a kind of tokenizer, or a way to cut text, that is not known here."""
    kind = said.text("tokenizer.ggml.model")
    pieces = said.entries("tokenizer.ggml.tokens")
    types = said.entries("tokenizer.ggml.token_type") or [NORMAL] * len(pieces)
    if not pieces or len(types) != len(pieces) or len(set(pieces)) != len(pieces):
        raise ConfigError(f"{said.source} does not tell each token once, with its type: take another file")
    makers = {"gpt2": _merged, "llama": _scored}
    if kind not in makers:
        raise ConfigError(f"{said.source} has a tokenizer of the kind {kind}: there are {', '.join(makers)}")
    tokenizer = makers[kind](said, pieces)
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False, special=True) for piece in _of(pieces, types, CONTROL)])
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in _of(pieces, types, USER_DEFINED)])
    return tokenizer


def settings(said: Settings) -> dict[str, Any]:
    """The `tokenizer_config.json` that belongs to it."""
    pieces = said.entries("tokenizer.ggml.tokens")
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    found: dict[str, Any] = {}
    for name, theirs in named.items():
        if piece := _named(said, pieces, theirs):
            found[f"{name}_token"] = piece
    template = said.content.get("tokenizer.chat_template")
    context = said.content.get(f"{said.content.get('general.architecture')}.context_length")
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **found}
    return told | ({"chat_template": template} if template else {}) | ({"model_max_length": context} if context else {})


def _named(said: Settings, pieces: Sequence[str], name: str) -> str:
    """The token that the file has an id for, as `bos`; nothing where it has none, or one beyond its tokens."""
    number = said.content.get(f"tokenizer.ggml.{name}_token_id")
    return pieces[number] if isinstance(number, int) and 0 <= number < len(pieces) else ""


def cut_of(whole: Mapping[str, Any]) -> str:
    """The name of llama.cpp for the way in which a `tokenizer.json` cuts text; nothing for a way that has none."""
    if whole["model"].get("type") != "BPE" or whole["model"].get("byte_fallback"):
        return ""
    own = (_parts(whole["pre_tokenizer"]), bool(whole["model"].get("ignore_merges")), (whole["normalizer"] or {}).get("type"))
    for name, make in CUTS.items():
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = make()
        parts = _parts(json.loads(made.to_str())["pre_tokenizer"])
        if own == (parts, name in _WHOLE, "NFC" if name in _COMPOSED else None):
            return name
    return ""


def _parts(part: Any) -> list[Any]:
    """What of a way to cut text decides about tokens, part by part."""
    if not isinstance(part, dict):
        return []
    if part.get("type") == "Sequence":
        return [one for inner in part["pretokenizers"] for one in _parts(inner)]
    return [{key: value for key, value in part.items() if key != "trim_offsets"}]


def types_of(tokens: Sequence[str], pieces: Mapping[int, str], whole: Mapping[str, Any]) -> list[int]:
    """What each token is, by the added ones of a `tokenizer.json`; one that fills up the list is unused."""
    added = {token["content"]: CONTROL if token["special"] else USER_DEFINED for token in whole["added_tokens"]}
    return [added.get(token, NORMAL) if number in pieces else UNUSED for number, token in enumerate(tokens)]


def _of(pieces: Sequence[str], types: Sequence[int], kind: int) -> list[str]:
    return [piece for piece, own in zip(pieces, types, strict=True) if own == kind]


def _merged(said: Settings, pieces: Sequence[str]) -> Tokenizer:
    """Merges over bytes, in their order."""
    way = said.text("tokenizer.ggml.pre", "gpt-2")
    if way not in CUTS:
        raise ConfigError(f"{said.source} cuts text by {way}, which is not known here: there are {', '.join(CUTS)}")
    merges = [tuple(merge.split(" ")) for merge in said.entries("tokenizer.ggml.merges")]
    ids = {piece: number for number, piece in enumerate(pieces)}
    if not merges or not all(len(pair) == 2 and pair[0] in ids and pair[1] in ids and "".join(pair) in ids for pair in merges):
        raise ConfigError(f"{said.source} has no merges, or some of what are no tokens: take another file")
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=way in _WHOLE))
    if way in _COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer, tokenizer.decoder = CUTS[way](), decoders.ByteLevel()
    _begin(tokenizer, said, pieces)
    return tokenizer


def _scored(said: Settings, pieces: Sequence[str]) -> Tokenizer:
    """Pieces of sentencepiece: what is made of two others has the rank of its score, as transformers derives merges of them."""
    scores = said.entries("tokenizer.ggml.scores")
    if len(scores) != len(pieces):
        raise ConfigError(f"{said.source} has {len(pieces)} tokens and {len(scores)} scores: take another file")
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = []
    for piece, score in zip(pieces, scores, strict=True):
        cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        own = sorted((ids[a], ids[b], a, b) for a, b in cuts if a in ids and b in ids)
        merges += [(a, b, score) for _, _, a, b in own]
    merges.sort(key=lambda merge: merge[2], reverse=True)
    unknown = _named(said, pieces, "unknown") or pieces[0]
    pairs = [(a, b) for a, b, _ in merges]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    before = [normalizers.Prepend(BLANK)] if said.flag("tokenizer.ggml.add_space_prefix", True) else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", BLANK)])
    after = [decoders.Strip(" ", 1, 0)] if before else []
    tokenizer.decoder = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse(), *after])
    _begin(tokenizer, said, pieces)
    return tokenizer


def _begin(tokenizer: Tokenizer, said: Settings, pieces: Sequence[str]) -> None:
    """Where the file asks for it, a text begins with its first token; a chat has the tokens that its template writes, and no others."""
    first = _named(said, pieces, "bos")
    if first and said.flag("tokenizer.ggml.add_bos_token", False):
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", pair=f"{first} $A {first} $B", special_tokens=[(first, pieces.index(first))]
        )
