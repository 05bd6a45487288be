"""measure any policy on any set of tasks: Pass@1 with its errors and interval, Pass@k, limits; compare two reports; plan how many runs

What is measured is a run's checkpoint, any model, a model behind an address, or predictions that are there already:

  patchgrad evaluate runs/laptop
  patchgrad evaluate runs/laptop --evaluation.attempts 10 --checkpoint rft-0 --json
  patchgrad evaluate --policy Qwen/Qwen3-0.6B --tasks sets/mine --evaluation.limits.context 16384 --out runs/qwen
  patchgrad evaluate --policy models/smollm2-135m-instruct --tasks generated --tasks.count 20
  patchgrad evaluate --policy http://localhost:8000/v1 --model NAME --tasks sets/mine --protocol swe-rebench --out runs/served
  patchgrad evaluate --policy Qwen/Qwen3-0.6B --tasks sets/mine --evaluation.best_of "visible tests" --print > mine.toml
  patchgrad evaluate --policy http://localhost:8000/v1 --model NAME --tasks sets/mine --out runs/served --cluster auto
  patchgrad evaluate --out runs/served --resume
  patchgrad evaluate --predictions run-1.jsonl run-2.jsonl --tasks verified.jsonl.gz --recorded logs/run_evaluation

A key for the address is taken from PATCHGRAD_KEY. What was measured can be compared, task by task, and the next one planned:

  patchgrad evaluate --compare runs/laptop:base runs/laptop
  patchgrad evaluate --compare runs/before runs/now --markdown comment.md
  patchgrad evaluate --plan runs/laptop --difference 2
  patchgrad evaluate --plan --difference 2 --size 500 --rate 35
"""

from __future__ import annotations

import argparse

from patchgrad.cli import options as shared
from patchgrad.cli.evaluate import comparing, handed_in, measuring, planning
from patchgrad.errors import ConfigError
from patchgrad.evaluation import PROTOCOLS

MODES = {"compare": comparing, "plan": planning, "predictions": handed_in}
TAKES = {
    "RUN": {"checkpoint", "tasks", "protocol", "out", "resume", "print", "cluster"},
    "FILE.toml": {"out", "resume", "print", "cluster"},
    "--policy": {"model", "tasks", "protocol", "out", "resume", "print", "cluster"},
    "--resume": {"out", "resume", "cluster"},
    "--predictions": {"tasks", "out", "recorded", "run_id", "concurrency"},
    "--compare": {"markdown"},
    "--plan": {"difference", "power", "size", "rate", "alike"},
}
"""What goes with what is evaluated; --json goes with all."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = "a run's folder, whose checkpoint is measured under its own scaffold and limits; or a TOML file that --print wrote"
    parser.add_argument("run", metavar="RUN", nargs="?", help=words)
    parser.add_argument("--checkpoint", metavar="STEP", help="one of the run's checkpoints (default: the last)")
    parser.add_argument("--policy", metavar="POLICY", help="a model's folder, a hub id, or an address up to /v1")
    parser.add_argument("--model", metavar="NAME", help="the model's name at the address")
    parser.add_argument("--tasks", metavar="SET", help="a set's folder, or generated (with --predictions also a file of rows)")
    parser.add_argument("--protocol", metavar="NAME", help=f"measure as others do: {', '.join(PROTOCOLS)}")
    parser.add_argument("--out", metavar="DIR", help="keep it: every attempt, the report, predictions and reports in SWE-bench's format")
    parser.add_argument("--resume", action="store_true", help="go on with the evaluation that --out has: what is done is not done again")
    shared.cluster(parser)
    handed_in.options(parser)
    comparing.options(parser)
    planning.options(parser)
    words = "print the evaluation as TOML, with `--print full` every key, and do nothing else; --dotted.key value sets any field of it"
    parser.add_argument("--print", metavar="full", nargs="?", const=shared.SHORT, choices=(shared.SHORT, shared.FULL), help=words)
    parser.add_argument("--json", action="store_true", help="no progress; one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Do the one thing that was asked for; exit code 1 where every attempt broke, so that nothing was measured."""
    named = [f"--{mode}" for mode in (*MODES, "policy") if getattr(arguments, mode) is not None]
    if arguments.run:
        named.append("FILE.toml" if arguments.run.endswith(".toml") else "RUN")
    if not named and arguments.out and arguments.resume:
        named.append("--resume")
    if len(named) != 1:
        asked = f"{' and '.join(named)} were given" if named else "nothing was"
        raise ConfigError(f"One thing is evaluated at a time, and {asked}: name RUN, --policy, --predictions, --compare or --plan.")
    given = {name for name, value in vars(arguments).items() if value not in (None, False, "")}
    given -= {"run", "policy", *MODES, "json", "verb", "changes"}
    mode = MODES.get(named[0].removeprefix("--"))
    odd = sorted(given - TAKES[named[0]]) or (list(arguments.changes) if mode is not None else [])
    if odd:
        raise ConfigError(f"--{odd[0].replace('_', '-')} has no meaning with {named[0]}: leave it out.")
    return mode.run(arguments) if mode is not None else measuring.run(arguments)
