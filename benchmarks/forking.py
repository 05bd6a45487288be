"""Prefix sampling and Monte-Carlo turn values beside plain DAPO, from one policy, at equal cost, over several seeds.

    python benchmarks/forking.py [--seeds 31,32,33,34,35] [--arms prefixes] [--work runs/forking] [--out DIR]

A hundred tasks are tried twenty times each in two rounds of fine-tuning; those that the base solved in none of its ten attempts are what
every arm draws from, so that each is hard and has a history. One stage of RL at a constant rate. Arms differ in how attempts begin and what
they are compared with; how many iterations each makes was set so that it samples and reads about as many tokens as the control and keeps
sandboxes about as busy, and the table says how many those were.
"""

from __future__ import annotations

from studies import Study, main

TURNS = {"stages.0.attempts": "4", "stages.0.forks": "2", "stages.0.continuations": "3", "stages.0.baseline": "turns"}
FORKING = Study(
    name="forking",
    shared={
        "tasks.train": "100",
        "tasks.held_out": "100",
        "evaluation.attempts": "4",
        "stages.0.decay": "0",
        "stages.0.lr": "5e-4",
        "stages.0.iterations": "8",
    },
    arms={
        "dapo": {},
        "prefixes": {"stages.0.starts": "prefixes"},
        "turn-values": TURNS,
        "turn-values-alone": TURNS | {"stages.0.step_weight": "0"},
        "no-step-credit": {"stages.0.step_weight": "0"},
    },
    against={"turn-values-alone": "no-step-credit"},
    stages=dict.fromkeys(("dapo", "prefixes", "turn-values", "turn-values-alone", "no-step-credit"), 1),
    hard=True,
)
"""`step_weight` is a credit to turns as well, from states that repeat by themselves: turn values are tried beside it and in its place."""

if __name__ == "__main__":
    main(FORKING, __doc__)
