"""The known bugs of `tests/learning/test_provenance.py` that can be put into TRL's asynchronous worker: which of them does it notice?

    python benchmarks/faults/in_trl.py

TRL 1.16 is installed in an environment of its own, below the cache. A conversation of three turns, as `TurnRecord`s, goes through
`_chain_to_sequences`, which makes training rows of it; each fault is put in alone. `refused`: an error is raised. `counted`: its tally of
drift tells of it, and what drifted is a row of its own or context. `trained`: the rows are made as if nothing were wrong. A table, and
JSON last.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.peers import TRL

DRIVER = """
import json
from dataclasses import replace
from trl.experimental.async_grpo.async_rollout_worker import TurnRecord, _chain_to_sequences

SPOKEN = [list(range(100 * n, 100 * n + 12)) for n in range(1, 4)]
HEARD = [list(range(1000 * n, 1000 * n + 30)) for n in range(1, 4)]


def conversation():
    turns, stream = [], []
    for heard, said in zip(HEARD, SPOKEN):
        stream = stream + heard
        turns.append(TurnRecord(list(stream), said, [-0.5] * len(said)))
        stream = stream + said
    return turns


def prompts(change):
    return [turn if number == 0 else replace(turn, prompt_ids=change(list(turn.prompt_ids))) for number, turn in enumerate(conversation())]


def outputs(change):
    return [change(turn) for turn in conversation()]


def without_stop():
    turns = conversation()
    return [replace(turns[0], output_ids=turns[0].output_ids[:-1], output_log_probs=turns[0].output_log_probs[:-1]), *turns[1:]]


def mixed():
    turns = conversation()
    other = [replace(turn, prompt_ids=[i + 5000 for i in turn.prompt_ids]) for turn in turns]
    return [turns[0], other[1], turns[2]]


def shifted(turn):
    return replace(turn, output_mask=[0] + [1] * (len(turn.output_ids) - 1))


FAULTS = {
    "a history that is tokenised again": lambda: prompts(lambda ids: ids[:34] + [7, 8] + ids[36:]),
    "a context that is truncated": lambda: prompts(lambda ids: ids[-40:]),
    "reasoning that is stripped from earlier turns": lambda: prompts(lambda ids: ids[:30] + ids[36:]),
    "a template that changes": lambda: prompts(lambda ids: [9, 9] + ids[1:]),
    "turns of two attempts that are mixed up": mixed,
    "a stop token that is dropped": without_stop,
    "padding that is counted": lambda: prompts(lambda ids: ids + [0] * 8),
    "a mask that is shifted by one": lambda: outputs(shifted),
    "a log-probability that is lost": lambda: outputs(lambda t: replace(t, output_log_probs=t.output_log_probs[1:])),
    "log-probabilities of another version": lambda: outputs(lambda t: replace(t, output_log_probs=[p - 0.5 for p in t.output_log_probs])),
    "a log-probability that is no number": lambda: outputs(lambda t: replace(t, output_log_probs=[float("nan")] * len(t.output_ids))),
}

rows, tally = _chain_to_sequences(conversation(), "t", 32)
assert len(rows) == 1 and tally["clean"] == 2, "an honest conversation is one row"
told = {}
for name, make in FAULTS.items():
    try:
        rows, tally = _chain_to_sequences(make(), "t", 32)
    except Exception as error:
        told[name] = "refused: " + str(error)
        continue
    drifted = tally["fork"] + tally["realign"]
    told[name] = f"counted: {drifted:.0f} of 2 transitions drifted, {len(rows)} rows" if drifted else "trained"
print(json.dumps(told))
"""


def main() -> None:
    """Puts them in, and says what became of each."""
    parser(__doc__).parse_args()
    told: dict[str, str] = TRL.answer("-c", DRIVER)
    for name, what in told.items():
        print(f"{name:48} {what}")
    kinds = [what.partition(":")[0] for what in told.values()]
    print({kind: kinds.count(kind) for kind in ("refused", "counted", "trained")})
    tell(told)


if __name__ == "__main__":
    main()
