"""What drafts from the prompt could save: how many tokens a step would draw, and what its further rows cost.

    python benchmarks/sampling/drafts.py RUN --model FOLDER [--attempts 200] [--least 4] [--most 8] [--rounds 3]

A draft is what followed, earlier in the stream, the longest n-gram that ends where the next token is drawn. It is verified by reading all
of it in one step, and its tokens count as far as they are those that the kept attempt drew there: a sampler whose rows have the same bits
however many they are draws exactly these. Costs are CPU-seconds of one thread for so many live streams with so many rows each. Prints
progress, and JSON last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.products import supported
from patchgrad.store import Run
from patchgrad.values import Segment

LONGEST = 8  # tokens of the n-gram
LENGTH = 300  # tokens of a live stream
LIVE, ROWS = (1, 8, 32), (1, 2, 4, 8)


def streams(run: Run) -> Iterator[Segment]:
    """The token streams of every attempt that RL learned from."""
    kept = dict.fromkeys((row["phase"], row["iteration"]) for row in run.rollouts.rows(columns=["phase", "iteration"]))
    for phase, iteration in kept:
        if phase.startswith("stage"):
            for rollout in run.rollouts.read(phase, iteration):
                yield from rollout.trajectory.segments


class Followed:
    """A stream, and where each n-gram of it ended last before its end."""

    def __init__(self, least: int) -> None:
        self.tokens: list[int] = []
        self.least, self._ends, self._new = least, dict[tuple[int, ...], int](), list[tuple[tuple[int, ...], int]]()

    def add(self, token: int) -> None:
        """One more token; what ends with the one before can be found from here on."""
        self._ends.update(self._new)
        self.tokens.append(token)
        here = len(self.tokens)
        self._new = [(tuple(self.tokens[-n:]), here) for n in range(self.least, min(LONGEST, here) + 1)]

    def draft(self, most: int) -> list[int]:
        """What followed the longest n-gram that the stream ends with, `most` tokens at most."""
        for gram, _ in reversed(self._new):
            if gram in self._ends:
                return self.tokens[self._ends[gram] : self._ends[gram] + most]
        return []


def drawn(segments: Iterator[Segment], least: int, most: int) -> dict[str, float]:
    """Tokens and rows a step, and the share of steps with a draft."""
    steps = tokens = rows = drafts = 0
    for segment in segments:
        stream = Followed(least)
        for turn in segment.turns:
            for token in turn.context.tolist():
                stream.add(token)
            left = turn.action.token_ids.tolist()
            while left:
                draft = stream.draft(most)
                same = next((i for i, (a, b) in enumerate(zip(draft, left, strict=False)) if a != b), min(len(draft), len(left)))
                taken = left[: same + 1]  # the token at the first difference is drawn too
                left = left[len(taken) :]
                for token in taken:
                    stream.add(token)
                steps, tokens, rows, drafts = steps + 1, tokens + len(taken), rows + 1 + len(draft), drafts + bool(draft)
    return {"tokens a step": tokens / steps, "rows a step": rows / steps, "share with a draft": drafts / steps}


def costs(decoder: CachedDecoder, live: int, rounds: int) -> dict[int, float]:
    """CPU-seconds of a step with so many rows for each of the live streams."""
    cache, random = decoder.cache(live), np.random.default_rng(0)
    for slot in range(live):
        before = random.integers(3, decoder.config.vocabulary, LENGTH).astype(np.int32)
        decoder.run(cache, before, np.full(LENGTH, slot), np.arange(LENGTH), np.array([LENGTH - 1]))
    spent: dict[int, list[float]] = {rows: [] for rows in ROWS}
    for _ in range(rounds + 1):
        for rows, found in spent.items():
            tokens = random.integers(3, decoder.config.vocabulary, live * rows).astype(np.int32)
            slots, places = np.repeat(np.arange(live), rows), np.tile(np.arange(LENGTH, LENGTH + rows), live)
            began = time.process_time()
            decoder.run(cache, tokens, slots, places, np.arange(live * rows))
            found.append(time.process_time() - began)
    return {rows: median(found[1:]) for rows, found in spent.items()}


if __name__ == "__main__":
    words = parser(__doc__)
    words.add_argument("run")
    words.add_argument("--model", required=True)
    words.add_argument("--attempts", type=int, default=200)
    words.add_argument("--least", type=int, default=4)
    words.add_argument("--most", type=int, default=8)
    words.add_argument("--rounds", type=int, default=3)
    asked = words.parse_args()
    torch.set_num_threads(1)
    taken = drawn(islice(streams(Run.open(asked.run)), asked.attempts), asked.least, asked.most)
    print(taken, file=sys.stderr)
    decoder = CachedDecoder(folder.load(asked.model), 1024, supported("float32"))
    found = {}
    for live in LIVE:
        found[live] = costs(decoder, live, asked.rounds)
        print(live, {rows: round(1000 * seconds, 1) for rows, seconds in found[live].items()}, "ms", file=sys.stderr)
    tell({"precision": decoder.precision, **taken, "seconds": {str(live): one for live, one in found.items()}})
