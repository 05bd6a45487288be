"""Text to ids and back, and the chat format that frames a conversation.

Two rules. A stream is only ever appended to: nothing is tokenised twice, so the ids a policy sampled are the ids it is trained on.
And content is data: a special token's name inside a message (`<|im_end|>` in a file that the agent prints) is spelt out in
ordinary tokens, so that an observation can neither end a turn nor open one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from patchgrad.errors import ConfigError
from patchgrad.values import Action, Ids, Message, digest, ids

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
APART = r""" ?["'(){}\[\],:]"""  # never merged with a neighbour, so that code is spelled alike inside and outside of quotes
SLOT = "Slot{}Content"  # stands for a message's content while a template is taken apart


@dataclass(frozen=True, slots=True)
class Frame:
    """A rendered template cut at the contents: `pieces[0] content[0] pieces[1] content[1] ... pieces[n]`."""

    pieces: tuple[str, ...]
    stripped: tuple[bool, ...]


class ChatTokenizer:
    """A `tokenizers` tokenizer with a chat template."""

    def __init__(self, tokenizer: Tokenizer, template: str, *, variables: Mapping[str, str] | None = None) -> None:
        self.tokenizer, self.template, self.variables = tokenizer, template, dict(variables or {})
        added = tokenizer.get_added_tokens_decoder()
        self.special = {token.content: number for number, token in added.items() if token.special}
        self._frames: dict[tuple[bool, tuple[str, ...]], Frame] = {}
        # Content never meets the special tokens; the frame's own are put in by id.
        tokenizer.encode_special_tokens = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy that was pickled: what keeps content from the special tokens is not in the pickle of a `tokenizers` tokenizer."""
        self.__dict__.update(state)
        self.tokenizer.encode_special_tokens = True

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that decides which ids a conversation becomes."""
        return digest(self.tokenizer.to_str(), self.template, json.dumps(self.variables, sort_keys=True))

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int = 1024) -> ChatTokenizer:
        """A byte-level BPE (1508.07909) on these texts with ChatML framing; any text round-trips, seen or not."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(APART), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            show_progress=False,
            special_tokens=[END, START, STOP],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer, CHATML, variables={"eos_token": STOP, "pad_token": END})

    @classmethod
    def load(cls, folder: Path) -> ChatTokenizer:
        """Reads `tokenizer.json` and the template from `chat_template.jinja` or `tokenizer_config.json`."""
        if not (folder / "tokenizer.json").is_file():
            raise ConfigError(f"{folder} has no tokenizer.json: save the tokenizer with a current transformers")
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
        return cls(Tokenizer.from_file(str(folder / "tokenizer.json")), template, variables=variables)

    def save(self, folder: Path) -> None:
        """Writes what `transformers.AutoTokenizer` needs to give the same ids."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.encode_special_tokens = False
        self.tokenizer.save(str(folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "chat_template": self.template,
            "clean_up_tokenization_spaces": False,
            **self.variables,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")

    @property
    def vocabulary(self) -> int:
        """The number of ids, special tokens included."""
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    @cached_property
    def stop(self) -> int:
        """The id that ends an assistant's turn: the first that the template puts after its content."""
        frame = self._cut((), True, opens=False)
        match = re.match("|".join(map(re.escape, self._longest)), frame.pieces[0].lstrip())
        if match is None:
            raise ConfigError("the chat template ends a turn with no special token, so a turn's end could be forged: use another")
        return self.special[match[0]]

    @property
    def eos(self) -> frozenset[int]:
        """Ids at which sampling stops."""
        names = {self.variables.get("eos_token"), STOP, END} & self.special.keys()
        return frozenset({self.stop, *(self.special[name] for name in names if name)})

    @cached_property
    def _longest(self) -> list[str]:
        return sorted(self.special, key=len, reverse=True)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of these ids, special tokens by name."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        """Ids that append `messages` to the stream and open the assistant's turn.

        At the start of a segment: the whole template. After an action: only what the template adds behind its content; the
        end-of-turn id is left out when the action already holds it (`stop`), and put in when sampling was cut (`length`).
        """
        frame = self._frame(tuple(m.role for m in messages), suffix=previous is not None)
        contents = [m.content.strip() if s else m.content for m, s in zip(messages, frame.stripped, strict=True)]
        tokens = self._join(frame.pieces, contents)
        if previous is not None and previous.finish == "stop":
            del tokens[: tokens.index(self.stop) + 1]
        return ids(tokens)

    def action(self, text: str) -> Ids:
        """The ids of an assistant's whole turn that says `text`, its end included: how a script plays a policy."""
        return ids([*self._ordinary(text), self.stop])

    def _join(self, pieces: Sequence[str], contents: Sequence[str]) -> list[int]:
        """Specials of the pieces by id; the text between two of them, content included, as one run of ordinary tokens."""
        pattern = re.compile("(" + "|".join(map(re.escape, self._longest)) + ")")
        tokens: list[int] = []
        run = ""
        for index, piece in enumerate(pieces):
            for place, part in enumerate(pattern.split(piece)):
                if place % 2:
                    tokens += self._ordinary(run)
                    tokens.append(self.special[part])
                    run = ""
                else:
                    run += part
            run += contents[index] if index < len(contents) else ""
        return tokens + self._ordinary(run)

    def _ordinary(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids) if text else []

    def _frame(self, roles: tuple[str, ...], *, suffix: bool) -> Frame:
        """The template for these roles, taken apart once and kept.

        A suffix is found by rendering `[user, assistant]` with the new messages and cutting behind the assistant's content. It
        exists only if the rendering begins with the prompt the policy had answered; otherwise the template rewrites history.
        """
        key = (suffix, roles)
        if key not in self._frames:
            self._frames[key] = self._cut(roles, suffix, opens=True)
        return self._frames[key]

    def _cut(self, roles: tuple[str, ...], suffix: bool, *, opens: bool) -> Frame:
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
            compiled = environment.from_string(self.template)
            return compiled.render(messages=list(messages), add_generation_prompt=opens, **self.variables)
        except TemplateError as error:
            raise ConfigError(f"the chat template does not accept this conversation: {error}") from error
