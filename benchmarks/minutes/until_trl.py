"""TRL's side of `benchmarks/minutes/until.py`: its GRPO with tools around our sandboxes; runs in an environment that that script makes.

    python until_trl.py RECIPE BASE SECONDS OUT

RECIPE is a TOML file, of which the first stage is meant, BASE a folder with the policy to begin from. TRL samples, calls, trains and
decides the order of all that; an attempt behind its `environment_factory` is ours, so that tasks, tools, limits, sandboxes, tests, reward
and, where the recipe says `sandbox.cache`, remembered answers are the same to the letter. The step is ours too, `Lent`: Muon, its rate over
the stage, clipping, planted heads that are held, embeddings that stay. TRL has none of the kind, and without them this network learns less
(docs/studies/laptop.md).

After each generation OUT has the model in a folder of its own, and a line of `steps.jsonl` with the seconds until then, those of writing
left out. `generate` is TRL's plain way to sample; its other two, continuous batching and vLLM, were not tried on a CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser

from patchgrad.config import loads
from patchgrad.recipes import Recipe


def main() -> None:
    """Trains in TRL."""
    asked = parser(__doc__)
    asked.add_argument("recipe", type=Path)
    asked.add_argument("base", type=Path)
    asked.add_argument("seconds", type=float)
    asked.add_argument("out", type=Path)
    given = asked.parse_args()

    from benchmarks.minutes.until_trl_attempts import Bench  # after the help, which is read where there is no TRL
    from benchmarks.minutes.until_trl_trainer import trained

    bench = Bench(loads(Recipe, given.recipe.read_text()), given.base, given.out / "archives")
    trained(bench, given.base, given.seconds, given.out)


if __name__ == "__main__":
    main()
