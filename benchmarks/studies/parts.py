"""What each choice of the recipe `laptop` in RL is worth: the recipe with another choice, from one policy a seed, over several seeds.

python benchmarks/studies/parts.py [--seeds 51,52,53] [--arms loops-kept,step-credit] [--work runs/parts] [--out DIR]

The first arms treat a repeated call otherwise; what each does to loops is drawn from their iterations by `loops.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.studies.study import Study, both, main

PARTS = Study(
    name="parts",
    shared={"tasks.held_out": "100", "evaluation.attempts": "4", "validation.tasks": "0"},
    arms={
        "control": {},
        **{f"loops-{name}": both(advantage__failures__looping=name) for name in ("keep", "mask", "withhold", "drop")},
        "no-charge": both(reward__unsubmitted="0"),
        "no-length-penalty": both(reward__length_weight="0"),
        "group-baseline": both(advantage__baseline="group", advantage__baseline_offset="0"),
        "all-blamed": both(advantage__confident_above="1"),
        "waste-rewarded": both(**{f"advantage__failures__{kind}": "keep" for kind in ("no_command", "truncated", "several_commands")}),
        "step-credit": both(advantage__step_weight="3"),
    },
    seeds=(51, 52, 53),
)

if __name__ == "__main__":
    main(PARTS, __doc__)
