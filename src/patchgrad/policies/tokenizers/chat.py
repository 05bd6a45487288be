"""Text to ids and back, and the chat format that frames a conversation.

Two rules. A stream is only ever appended to: nothing is tokenised twice, so the ids a policy sampled are the ids it is trained on.
And content is data: a special token's name inside a message (`<|im_end|>` in a file that the agent prints) is spelt out in
ordinary tokens, so that an observation can neither end a turn nor open one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from patchgrad.errors import ConfigError
from patchgrad.policies.tokenizers import reading
from patchgrad.policies.tokenizers.guarding import Guard
from patchgrad.policies.tokenizers.spelling import Spelling
from patchgrad.policies.tokenizers.template import ChatTemplate
from patchgrad.values import Action, Ids, Message, digest, ids

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
EXAMPLE = Message("user", " Mend  it's 12 lines.\n\n\tdef f(x): return 'é'\n")
BESIDE = ("x", " ", "\n x \n")  # what stands on both sides of a special token
APART = r""" ?["'(){}\[\],:]"""  # never merged with a neighbour, so that code is spelled alike inside and outside of quotes


class ChatTokenizer:
    """A `tokenizers` tokenizer with a chat template."""

    def __init__(self, tokenizer: Tokenizer, template: str, *, variables: Mapping[str, str] | None = None) -> None:
        self.tokenizer, self.template = tokenizer, ChatTemplate(template, variables or {})
        self._spelling = Spelling(tokenizer)
        self.special = self._spelling.special
        self._guard = Guard(self.special)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that decides which ids a conversation becomes."""
        return digest(self.tokenizer.to_str(), self.template.text, json.dumps(self.template.variables, sort_keys=True))

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
        """Reads the tokenizer and its template as transformers does; `ConfigError` for what would give other ids than there."""
        found = reading.read(folder)
        read = cls(found.tokenizer, found.template, variables=found.variables)
        read._compare()
        return read

    def save(self, folder: Path) -> None:
        """Writes what `transformers.AutoTokenizer` needs to give the same ids."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.encode_special_tokens = False
        self.tokenizer.save(str(folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "chat_template": self.template.text,
            "clean_up_tokenization_spaces": False,
            **self.template.variables,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")

    @property
    def vocabulary(self) -> int:
        """The number of ids, special tokens included."""
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    @cached_property
    def stop(self) -> int:
        """The id that ends an assistant's turn: the first that the template puts after its content."""
        found = self._spelling.first(self.template.ending().lstrip())
        if found is None:
            raise ConfigError("the chat template ends a turn with no special token, so a turn's end could be forged: use another")
        return found

    @property
    def eos(self) -> frozenset[int]:
        """Ids at which sampling stops."""
        names = {self.template.variables.get("eos_token"), STOP, END} & self.special.keys()
        return frozenset({self.stop, *(self.special[name] for name in names if name)})

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of these ids, special tokens by name."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        """Ids that append `messages` to the stream and open the assistant's turn.

        At the start of a segment: the whole template. After an action: only what the template adds behind its content; the
        end-of-turn id is left out when the action already holds it (`stop`), and put in when sampling was cut (`length`).
        """
        contents, back = self._guard.hide([message.content for message in messages], self.template.text)
        told = [Message(message.role, content) for message, content in zip(messages, contents, strict=True)]
        if previous is None:
            return ids(self._spelling.join(self.template.opening(told), back, first=True))
        tokens = self._spelling.join(self.template.suffix(told), back, first=False)
        if previous.finish == "stop":
            del tokens[: tokens.index(self.stop) + 1]
        return ids(tokens)

    def _compare(self) -> None:
        """`ConfigError` where a conversation without special tokens in it is spelt differently from how the tokenizer reads its text."""
        text = self.template.whole(EXAMPLE)
        framing = [name for name in self.special if name in text]
        if loose := next((name for name in framing if name in self._spelling.single_words), None):
            raise ConfigError(f"{loose} is no special token beside a letter, as its single_word says: set that to false")
        texts = [text, *(beside + name + beside for name in framing for beside in BESIDE)]
        if any(self._spelling.join(one, {}, first=True) != self._spelling.whole(one) for one in texts):
            raise ConfigError(
                "the tokenizer reads the text beside its special tokens in a way that is not supported: use another tokenizer"
            )

    def action(self, text: str) -> Ids:
        """The ids of an assistant's whole turn that says `text`, its end included: how a script plays a policy."""
        return ids([*self._spelling.ordinary(self.template.lead + text), self.stop])
