"""What every tokenizer must hold, as one function that its author runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from patchgrad.contracts import Tokenizer
from patchgrad.values import Action, Ids, Message, floats, ids

TEXTS = (
    "The tests fail.",
    "two\nlines and\ta tab",
    "def f(x):\n    return {'a': [x, \"b\"]}\n\n\nend",
    "naïve Δ 漢字 🙂 e\u0301",
    "windows\r\nends",
    "\x00 and \x1b[31m and \x7f.",
    "x" * 500,
    "-1 << 3 && a|b",
)
OPENING = (Message("system", "You repair programs."), Message("user", "Find the bug."))
ANSWER = (Message("user", "exit code 1\n  assert 3 == 4"),)


def check_tokenizer(
    make: Callable[[], Tokenizer],
    folder: Path,
    *,
    load: Callable[[Path], Tokenizer] | None = None,
    forgeries: Sequence[str] = ("<|im_end|>", "<|im_start|>", "<|endoftext|>", "</s>"),
) -> None:
    """Raises `AssertionError` for the first rule that a tokenizer breaks; `make` gives a fresh one each time, equal to the last.

    Ids are one-dimensional `int32` below the size of the vocabulary, and the same for the same messages; any text of a message is in what
    they decode to; a turn that was cut is ended before anything follows it, and from there goes on as one that ended by itself; no text of
    a message ends a turn, `forgeries` of special tokens included; equal tokenizers have one fingerprint; and saving to `folder` changes
    nothing. With `load`, what was saved is the same tokenizer again.
    """
    one, two = make(), make()
    assert one.fingerprint, "a tokenizer has a fingerprint"
    assert one.fingerprint == two.fingerprint, "equal tokenizers have one fingerprint"
    assert one.vocabulary == two.vocabulary > 0, "a tokenizer says how many ids it has"
    assert one.eos, "some id ends a turn"
    assert all(0 <= stop < one.vocabulary for stop in one.eos), "the ids that end a turn are ids of the vocabulary"
    for text in TEXTS:
        _check_text(one, two, text)
    _check_appending(one)
    for forgery in forgeries:
        _check_forgery(one, forgery)
    before, fingerprint = one.encode(OPENING, None), one.fingerprint
    one.save(folder)
    assert one.fingerprint == fingerprint, "saving changes no fingerprint"
    assert np.array_equal(one.encode(OPENING, None), before), "saving changes no id"
    if load is not None:
        again = load(folder)
        assert again.fingerprint == fingerprint, "what was saved has the same fingerprint"
        assert (again.vocabulary, again.eos) == (one.vocabulary, one.eos), "what was saved has the same ids"
        for text in TEXTS:
            messages = (Message("user", text),)
            assert np.array_equal(again.encode(messages, None), one.encode(messages, None)), f"what was saved encodes {text!r} as before"


def _check_text(one: Tokenizer, two: Tokenizer, text: str) -> None:
    messages = (Message("system", "You repair programs."), Message("user", text))
    tokens = _checked(one, one.encode(messages, None))
    assert np.array_equal(one.encode(messages, None), tokens), "the same messages have the same ids, however often they are asked for"
    assert np.array_equal(two.encode(messages, None), tokens), "equal tokenizers give equal ids"
    assert text in one.decode(tokens.tolist()), f"the text of a message is in what its ids decode to: {text!r}"
    assert _ends(one, tokens) == _ends(one, one.encode((messages[0], Message("user", "x")), None)), f"{text!r} ended a turn"


def _checked(tokenizer: Tokenizer, tokens: Ids) -> Ids:
    assert tokens.dtype == np.int32, "token ids are int32"
    assert tokens.ndim == 1, "token ids are one-dimensional"
    assert len(tokens), "messages have tokens"
    assert 0 <= tokens.min() <= tokens.max() < tokenizer.vocabulary, "token ids are below the size of the vocabulary"
    return tokens


def _check_appending(tokenizer: Tokenizer) -> None:
    stopped, cut = (Action(ids([1]), floats([0.0]), 0, "", finish) for finish in ("stop", "length"))
    after_stop, after_cut = (_checked(tokenizer, tokenizer.encode(ANSWER, action)) for action in (stopped, cut))
    assert int(after_cut[0]) in tokenizer.eos, "after a cut action the end of its turn comes first"
    assert np.array_equal(after_cut[1:], after_stop), "after that end both go on alike"
    assert ANSWER[0].content in tokenizer.decode(after_stop.tolist()), "what is appended holds the text of its message"
    assert OPENING[1].content not in tokenizer.decode(after_stop.tolist()), "what is appended repeats nothing of the stream"
    assert not np.array_equal(tokenizer.encode(ANSWER, None), after_cut), "the start of a segment is told apart from its middle"


def _check_forgery(tokenizer: Tokenizer, forgery: str) -> None:
    for previous in (None, Action(ids([1]), floats([0.0]), 0, "", "length")):
        honest, forged = (tokenizer.encode((Message("user", text),), previous) for text in ("x", f"x{forgery}\n"))
        assert _ends(tokenizer, forged) == _ends(tokenizer, honest), f"{forgery} in a message ended a turn"


def _ends(tokenizer: Tokenizer, tokens: Ids) -> int:
    return sum(int(token) in tokenizer.eos for token in tokens)
