"""A folder's tokenizer and chat template, read from the files that transformers reads, in the same order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

from patchgrad.errors import ConfigError
from patchgrad.networks.settings import Settings


@dataclass(frozen=True, slots=True)
class Found:
    """A tokenizer with all its added tokens, a template's text, and the special tokens by name that it is rendered with."""

    tokenizer: Tokenizer
    template: str
    variables: dict[str, str]


def read(folder: Path) -> Found:
    """Raises `ConfigError` for a file that is missing or broken, and for settings under which the ids would not be those of the text."""
    settings = _settings(folder)
    if settings.flag("split_special_tokens", False):
        raise ConfigError(f"split_special_tokens is set in {settings.source}: a chat needs its special tokens, so take it out")
    return Found(_tokenizer(folder, settings), _template(folder, settings), _named(settings))


def _settings(folder: Path) -> Settings:
    """`tokenizer_config.json`; `special_tokens_map.json` goes before it, unless it lists the added tokens itself."""
    told, older = folder / "tokenizer_config.json", folder / "special_tokens_map.json"
    found = Settings.read(told) if told.is_file() else Settings({}, str(told))
    if older.is_file() and not found.has("added_tokens_decoder"):
        return Settings({**found.content, **Settings.read(older).content}, found.source)
    return found


def _tokenizer(folder: Path, settings: Settings) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json: save the tokenizer with a current transformers")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no class of its own for it
        raise ConfigError(f"{path} is not a whole tokenizer: {error}") from error
    if isinstance(tokenizer.model, models.BPE) and tokenizer.model.dropout:
        raise ConfigError(f"{path} draws its merges at random: set dropout to null in it")
    there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    lacking: dict[str, AddedToken] = {}
    for token in _added(settings):
        if token.content not in there:
            lacking.setdefault(token.content, token)  # one that is listed with its flags is not one that is named alone
    tokenizer.add_tokens(list(lacking.values()))
    return tokenizer


def _added(settings: Settings) -> Iterable[AddedToken]:
    """Tokens that the settings name: transformers adds those that `tokenizer.json` lacks."""
    listed = settings.part("added_tokens_decoder").content
    if not all(number.isdecimal() for number in listed):
        raise ConfigError(f"added_tokens_decoder in {settings.source} must have ids as keys: copy it again")
    for number in sorted(listed, key=int):
        one = Settings(listed[number] if isinstance(listed[number], dict) else {}, f"added_tokens_decoder of {settings.source}")
        flags = {flag: one.flag(flag, False) for flag in ("single_word", "lstrip", "rstrip", "special")}
        yield AddedToken(one.text("content"), normalized=one.flag("normalized", not flags["special"]), **flags)
    extra = settings.entries("extra_special_tokens") or settings.entries("additional_special_tokens")
    named = [value for entry in extra for value in (entry.values() if isinstance(entry, dict) and "content" not in entry else [entry])]
    for value in [*_named(settings).values(), *map(_content, named)]:
        if value:
            yield AddedToken(value, special=True)


def _named(settings: Settings) -> dict[str, str]:
    """`eos_token` and others, each as text or as an object with its `content`."""
    found = {key: _content(value) for key, value in settings.content.items() if key.endswith("_token")}
    return {key: value for key, value in found.items() if value}


def _content(value: Any) -> str:
    """The text of a token; nothing for what is none, as `add_bos_token: true`."""
    told = value.get("content") if isinstance(value, dict) else value
    return told if isinstance(told, str) else ""


def _template(folder: Path, settings: Settings) -> str:
    """`chat_template.jinja`, else the one in the settings, of several the one called `default`."""
    path = folder / "chat_template.jinja"
    template = settings.content.get("chat_template")
    if path.is_file():
        try:
            template = path.read_text(encoding="utf-8")
        except ValueError as error:
            raise ConfigError(f"{path} is not UTF-8 text: copy it again") from error
    elif isinstance(template, list):
        entries = [Settings(entry if isinstance(entry, dict) else {}, f"chat_template of {settings.source}") for entry in template]
        template = {entry.text("name"): entry.text("template") for entry in entries}.get("default")
    if not template or not isinstance(template, str):
        raise ConfigError(f"{folder} has no chat template: use an instruction-tuned checkpoint, or add chat_template.jinja")
    return template
