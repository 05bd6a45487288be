"""Is a folder's model read as transformers reads it? Its chat, token by token, and its log-probabilities.

A policy appends to a stream and never spells a conversation twice, so a conversation that a template rewrites later is one that differs.
Without transformers nothing is compared, and what is refused is told all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.values import Action, Message, floats, ids

CLOSE = 1e-3  # between log-probabilities of one token; sums in another order differ by less
TOKENS = 256  # of which log-probabilities are compared
LARGEST = 2_000_000_000  # parameters of a model that is computed twice for it
_ANSWER = "I look at the file.\n```command\nopen shop/cart.py 12\n```"
_THOUGHT = f"<think>\nThe total is wrong.\n</think>\n\n{_ANSWER}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was compared; `holds` is `None` where it could not be."""

    name: str
    holds: bool | None
    note: str


def findings(path: Path, prompt: Sequence[Message], observation: str) -> Iterator[Finding]:
    """A real first prompt of an agent, then an answer and what it brings, and the same with and without system message and with thoughts.

    Raises `ConfigError` for a folder whose shape or tokenizer cannot be read at all.
    """
    tokenizer = ChatTokenizer.load(path)
    theirs = _transformers(path)
    user = [message for message in prompt if message.role != "system"]
    system = [Message("system", "You mend programs.")]
    seen = [Message("user", observation)]
    cases: dict[str, tuple[Sequence[Message], str, Sequence[Message]]] = {
        "a first prompt": (prompt, "", []),
        "a first prompt without a system message": (user, "", []),
        "a second turn": (prompt, _ANSWER, seen),
        "a second turn without a system message": (user, _ANSWER, seen),
        "a system message of its own": ([*system, *user], _ANSWER, seen),
        "an answer with a thought": (user, _THOUGHT, seen),
    }
    for name, case in cases.items():
        yield _compared(name, partial(_ours, tokenizer, *case), partial(theirs, *case))
    yield _weights(path, tokenizer, user)


def _compared(name: str, ours: Callable[[], list[int]], theirs: Callable[[], list[int] | None]) -> Finding:
    try:
        own = ours()
    except ConfigError as refusal:
        return Finding(name, False, f"is refused: {refusal}")
    try:
        reference = theirs()
    except Exception as error:  # a template raises what it likes
        return Finding(name, None, f"{len(own)} tokens; transformers refuses it: {error}")
    if reference is None:
        return Finding(name, None, f"{len(own)} tokens; install transformers to have them compared")
    if own == reference:
        return Finding(name, True, f"{len(own)} tokens, those of transformers")
    at = next((i for i, (a, b) in enumerate(zip(own, reference, strict=False)) if a != b), min(len(own), len(reference)))
    return Finding(name, False, f"{len(own)} tokens where transformers has {len(reference)}; they part at token {at}")


def _ours(tokenizer: ChatTokenizer, prompt: Sequence[Message], answer: str, then: Sequence[Message]) -> list[int]:
    stream = tokenizer.encode(prompt, None).tolist()
    if answer:
        spoken = tokenizer.action(answer)
        action = Action(spoken, floats([0.0] * len(spoken)), 0, answer, "stop")
        stream += [*spoken.tolist(), *tokenizer.encode(then, action).tolist()]
    return [int(number) for number in stream]


def _transformers(path: Path) -> Callable[[Sequence[Message], str, Sequence[Message]], list[int] | None]:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return lambda *_: None
    tokenizer: Any = AutoTokenizer.from_pretrained(path)

    def read(prompt: Sequence[Message], answer: str, then: Sequence[Message]) -> list[int]:
        said = [*prompt, *([Message("assistant", answer)] if answer else []), *then]
        told = [{"role": message.role, "content": message.content} for message in said]
        found = tokenizer.apply_chat_template(told, add_generation_prompt=True, tokenize=True, return_dict=True)
        return [int(number) for number in found["input_ids"]]

    return read


def _weights(path: Path, tokenizer: ChatTokenizer, prompt: Sequence[Message]) -> Finding:
    """The same log-probabilities for the tokens of a prompt?"""
    name, shape = "log-probabilities", folder.shape(path)
    if shape.parameters > LARGEST:
        return Finding(name, None, f"not compared: with {shape.parameters / 1e9:.1f} billion parameters it would be computed for minutes")
    try:
        from transformers import AutoModelForCausalLM
    except ImportError:
        return Finding(name, None, "install transformers to have them compared")
    import torch

    tokens = torch.from_numpy(np.asarray(tokenizer.encode(prompt, None)[:TOKENS], np.int64))
    network = folder.load(path)
    with torch.no_grad():
        layout = network.layout(ids(tokens.tolist()), [0, len(tokens)])
        hidden = network.forward_packed(tokens, torch.arange(len(tokens)), layout.nodes)
        ours, _ = network.logprobs(hidden[:-1], tokens[1:])
        del network
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        theirs = torch.log_softmax(model(tokens[None]).logits[0].float(), -1)[:-1].gather(-1, tokens[1:, None])[:, 0]
    most = float((ours - theirs).abs().max())
    return Finding(name, most < CLOSE, f"at most {most:.1e} from those of transformers, over {len(ours)} tokens")
