"""Prefix sampling and Monte-Carlo turn values beside plain DAPO, from one policy, at equal cost, over several seeds.

    python benchmarks/studies/forking.py [--seeds 31,32] [--arms prefixes] [--work runs/forking] [--out DIR]

Of the tasks that the base was warmed up on, a hundred are tried twenty times each in two rounds of fine-tuning; those that the base solved
in none of its ten attempts are what every arm draws from, so that each is hard and has a history. One stage of RL at a constant rate. Arms
differ in how attempts begin and what they are compared with. Each makes about as many attempts; the table says how many tokens were sampled
and read for it, and how long tools and tests took, which compares arms only where nothing else ran.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.studies.study import Study, main

KINDS = ("no_command", "truncated", "several_commands", "bad_arguments", "looping")
FORKING = Study(
    name="forking",
    shared={
        "tasks.held_out": "100",
        "evaluation.attempts": "4",
        "rft.rounds": "2",
        "stages.0.decay": "0",
        "stages.0.lr": "5e-4",
        "stages.0.iterations": "8",
        "stages.0.advantage.baseline": "group",
        "stages.0.advantage.baseline_offset": "0",
        "stages.0.reward.unsubmitted": "0",
        "stages.0.advantage.confident_above": "1",
        **{f"stages.0.advantage.failures.{kind}": "keep" for kind in KINDS},
    },
    arms={
        "dapo": {},
        "prefixes": {"stages.0.start.at": "prefixes"},
        "turn-values": {
            "stages.0.sampling.tasks": "26",
            "stages.0.sampling.attempts": "4",
            "stages.0.sampling.forks": "2",
            "stages.0.sampling.continuations": "3",
            "stages.0.advantage.baseline": "turns",
        },
        "groups-of-four": {"stages.0.sampling.tasks": "40", "stages.0.sampling.attempts": "4"},
    },
    stages=dict.fromkeys(("dapo", "prefixes", "turn-values", "groups-of-four"), 1),
    hard=100,
    seeds=(31, 32, 33, 34, 35),
)
"""The control is plain DAPO, without what the laptop's recipe adds to its credit and its reward but the length penalty.

Groups of four are what turn values have beside their forks, as many attempts without any. Groups without contrast are not
forked: of groups of four 37 % have some on these tasks, so that 26 of them make 162 attempts, forks included.
"""

if __name__ == "__main__":
    main(FORKING, __doc__)
