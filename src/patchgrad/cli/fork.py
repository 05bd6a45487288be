"""let an attempt go on again and again after one of its turns: how likely is it solved from there?

The files are those that the turn left, the conversation is the one up to it, and the policy is the run's last one:

  patchgrad fork runs/laptop stage1/0/3/2 --turn 4
  patchgrad fork runs/laptop stage1/0/3/2 --turn 4 --attempts 32 --out runs/forked
"""

from __future__ import annotations

import argparse
import asyncio
import json
from functools import partial
from pathlib import Path

from patchgrad.runs.trackers.terminal import choose


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("attempt", metavar="ATTEMPT", help="an attempt's name, such as stage1/0/3/2")
    parser.add_argument("--turn", metavar="N", type=int, required=True, help="go on after its first N turns; 0 is from the beginning")
    parser.add_argument("--attempts", metavar="K", type=int, default=8, help="how often (default: 8)")
    parser.add_argument("--checkpoint", metavar="NAME", help="another of the run's checkpoints than the last")
    parser.add_argument("--out", metavar="DIR", help="keep the continuations as a run's folder")
    parser.add_argument("--json", action="store_true", help="one JSON object, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Go on, and tell how many were solved."""
    from patchgrad.evaluation import wilson
    from patchgrad.runs.inspection.forking import fork
    from patchgrad.runs.planning.advice import exhausted
    from patchgrad.runs.reading import recipe_of
    from patchgrad.runs.session import told
    from patchgrad.store import Run
    from patchgrad.values import PhaseBegan

    source = Run.open(arguments.run)
    recipe_of(source)  # an evaluation has no policy of its own to go on with
    checkpoint = source.checkpoints.find(arguments.checkpoint)
    out = Run.create(Path(arguments.out), source.recipe, "--out") if arguments.out else None
    with choose(arguments.json) as tracker:
        tracker.event(PhaseBegan(f"{arguments.attempt} after turn {arguments.turn}", arguments.attempts))
        seen = partial(told, tracker)

        try:
            with exhausted(lambda: "the policy and the caches of its attempts do not fit. Fewer --attempts take less."):
                made = fork(source, arguments.attempt, arguments.turn, arguments.attempts, checkpoint=checkpoint, out=out, on_rollout=seen)
                done = asyncio.run(made)
        except BaseException:
            if out is not None:
                out.abandon()
            raise
    judged = [float(one.solved) for one in done if not one.broken]
    solved, sound = int(sum(judged)), len(judged)
    low, high = wilson(judged) if judged else (0.0, 1.0)
    stops = [one.trajectory.stop for one in done]
    if arguments.json:
        line = {"attempt": arguments.attempt, "turn": arguments.turn, "attempts": len(done), "solved": solved, "broken": len(done) - sound}
        print(json.dumps(line | {"low": low, "high": high, "stops": {stop: stops.count(stop) for stop in sorted(set(stops))}}))
    else:
        print(f"{solved} of {sound} were solved from there (95 %: {low:.0%} to {high:.0%}).")
        if out is not None:
            print(f"They are in {out.folder}.")
    return 0
