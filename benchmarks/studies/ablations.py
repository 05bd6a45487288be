"""What each part of the recipe is worth: the laptop's recipe without it, from one policy, with as many attempts, over several seeds.

python benchmarks/studies/ablations.py [--seeds 31,32,33] [--arms one-stage,overlong-masked] [--work runs/ablations] [--out DIR]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.studies.study import Study, both, main

KINDS = ("no_command", "truncated", "several_commands", "bad_arguments", "looping")
REWARDED = {f"advantage.failures.{kind}": "keep" for kind in KINDS}
CREDIT = {"advantage.baseline": "group", "advantage.baseline_offset": "0", "advantage.confident_above": "1"}
ABLATIONS = Study(
    name="ablations",
    shared={"tasks.held_out": "100", "evaluation.attempts": "4"},
    arms={
        "control": {"evaluation.after": "phases"},
        "no-rft": {"rft.rounds": "0", "stages.0.iterations": "8", "stages.1.iterations": "9"},
        "rft-only": {"rft.rounds": "3", "rft.tasks": "92"},
        "symmetric-clip": both(loss__clip_high="0.2"),
        "no-contrast-filter": both(advantage__filter_on="reward"),
        "sequence-mean": both(loss__aggregate="seq-mean-token-mean"),
        "no-length-penalty": both(reward__length_weight="0"),
        "overlong-masked": both(**{"advantage.failures.overlong": "mask"}),
        "top-p-0.9": both(sampling__top_p="0.9"),
        "one-stage": {"stages.0.iterations": "11"},
        "few-tasks": both(start__pool="32"),
        "few-tasks-no-refresh": both(start__pool="32") | {"stages.1.start.refresh_before": "false"},
        "paper-baseline": both(advantage__baseline="group", advantage__baseline_offset="0"),
        "step-credit": both(advantage__step_weight="3"),
        "confident_above-blamed": both(advantage__confident_above="1"),
        "waste-rewarded": both(**REWARDED),
        **{f"loops-{name}": both(**{"advantage.failures.looping": name}) for name in ("keep", "mask", "withhold", "drop")},
        "no-charge": both(reward__unsubmitted="0"),
        "repeats-go-on": {"agent.repeats": "0"},
        "paper-credit": both(**CREDIT, **REWARDED),
        "paper-length-penalty": both(reward__length_weight="1", reward__length_threshold="3"),
    },
    against={"few-tasks-no-refresh": "few-tasks"},
    stages={"rft-only": 0, "one-stage": 1},
)
"""The control is the recipe: 2,760 attempts, of which RL has 1,760; `no-rft` has 2,720 of RL, `rft-only` two more rounds: 2,760.

Of 2,000 tasks none is drawn twice in so few iterations, so a refresh changes nothing but the order. Its arms draw from 32.
"""

if __name__ == "__main__":
    main(ABLATIONS, __doc__)
