"""A chat template taken apart: what frames the contents of a conversation, found by rendering it once for each row of roles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from patchgrad.errors import ConfigError

SLOT = "Slot{}Content"  # stands for a message's content while a template is taken apart


@dataclass(frozen=True, slots=True)
class Frame:
    """A rendered template cut at the contents: `pieces[0] content[0] pieces[1] content[1] ... pieces[n]`."""

    pieces: tuple[str, ...]
    stripped: tuple[bool, ...]


class ChatTemplate:
    """A template's `text` and the `variables` that it is rendered with, `eos_token` for one."""

    def __init__(self, text: str, variables: Mapping[str, str]) -> None:
        self.text, self.variables = text, dict(variables)
        self._frames: dict[tuple[bool, tuple[str, ...]], Frame] = {}

    @classmethod
    def read(cls, folder: Path) -> ChatTemplate:
        """The template from `chat_template.jinja` or `tokenizer_config.json`."""
        settings: dict[str, Any] = {}
        if (folder / "tokenizer_config.json").is_file():
            settings = json.loads((folder / "tokenizer_config.json").read_text())
        template = settings.get("chat_template")
        if isinstance(template, list):
            template = {entry["name"]: entry["template"] for entry in template}.get("default")
        if (folder / "chat_template.jinja").is_file():
            template = (folder / "chat_template.jinja").read_text()
        if not template:
            raise ConfigError(f"{folder} has no chat template: use an instruction-tuned checkpoint, or add chat_template.jinja")
        named = {key: value for key, value in settings.items() if key.endswith("_token") and value}
        variables = {key: value["content"] if isinstance(value, dict) else str(value) for key, value in named.items()}
        return cls(template, variables)

    def frame(self, roles: tuple[str, ...], *, suffix: bool) -> Frame:
        """The template for these roles, taken apart once and kept.

        A suffix is found by rendering `[user, assistant]` with the new messages and cutting behind the assistant's content. It
        exists only if the rendering begins with the prompt the policy had answered; otherwise the template rewrites history.
        """
        key = (suffix, roles)
        if key not in self._frames:
            self._frames[key] = self.cut(roles, suffix, opens=True)
        return self._frames[key]

    def cut(self, roles: tuple[str, ...], suffix: bool, *, opens: bool) -> Frame:
        """The template for these roles, from its beginning or as a suffix, and with the next turn opened or not."""
        names = [SLOT.format(i) for i in range(len(roles))]
        messages = [{"role": r, "content": f"\n {n} \n"} for r, n in zip(roles, names, strict=True)]
        history = [{"role": "user", "content": "Question"}, {"role": "assistant", "content": "PreviousAction"}]
        text = self._render(history + messages if suffix else messages, opens=opens)
        if suffix:
            prompt = self._render(history[:1], opens=True) + "PreviousAction"
            if "PreviousAction" not in text:
                raise ConfigError("the chat template drops the content of an assistant message: use another template")
            if opens and not text.startswith(prompt):
                raise ConfigError("the chat template rewrites earlier turns, so a stream cannot be appended to: use another template")
            text = text.partition("PreviousAction")[2]
        pieces: list[str] = []
        stripped: list[bool] = []
        for name in names:
            before, found, text = text.partition(name)
            if not found:
                raise ConfigError(f"the chat template drops the content of a {roles[len(stripped)]} message: use another template")
            verbatim = before.endswith("\n ") and text.startswith(" \n")
            stripped.append(not verbatim)
            pieces.append(before[:-2] if verbatim else before)
            text = text[2:] if verbatim else text
        return Frame((*pieces, text), tuple(stripped))

    def _render(self, messages: Sequence[Mapping[str, str]], *, opens: bool) -> str:
        """Renders as transformers does: sandboxed, blocks trimmed."""

        def refuse(message: str) -> None:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda form: "2025-01-01"
        environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
        try:
            compiled = environment.from_string(self.text)
            return compiled.render(messages=list(messages), add_generation_prompt=opens, **self.variables)
        except TemplateError as error:
            raise ConfigError(f"the chat template does not accept this conversation: {error}") from error
