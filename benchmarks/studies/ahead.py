"""What sampling ahead and groups that are trained again cost or gain in skill: the laptop's RL from one policy a seed, over several seeds.

    python benchmarks/studies/ahead.py [--seeds 41,42] [--arms lag-2] [--work runs/ahead] [--out DIR]

Each arm makes as many attempts and is measured on the same held-out tasks. An arm with replay also trains on up to four groups of earlier
iterations, a quarter of an iteration's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.studies.study import Study, both, main

AHEAD = Study(
    name="ahead",
    shared={"tasks.held_out": "100", "evaluation.attempts": "4"},
    arms={
        "lag-0": {},
        "lag-1": both(sampling__lag="1"),
        "lag-2": both(sampling__lag="2"),
        "replay": both(replay__groups="4"),
    },
    seeds=(41, 42, 43, 44),
)

if __name__ == "__main__":
    main(AHEAD, __doc__)
