"""attempts of a run in the formats of other programs

Messages are those that the policy was sampled after: a run knows the tokens, and each message is held against them. What --hide matches is
replaced everywhere, and the token ids of such an attempt are left out:

  patchgrad export runs/laptop --to hf-messages --solved --out solved.parquet
  patchgrad export runs/laptop --to atif --phase stage2 --out trajectories
  patchgrad export runs/laptop --to inspect --out logs && inspect view --log-dir logs
  patchgrad export runs/laptop --to predictions --phase evaluate-4 --out predictions.jsonl
  patchgrad export runs/laptop --to swebench --phase evaluate-4 --out handed-in
  patchgrad export runs/laptop --to hf-messages --hide 'sk-[A-Za-z0-9]+' --hide '[\\w.]+@[\\w.]+' --out shared.parquet
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from patchgrad.errors import Refused

FORMATS = ("atif", "hf-messages", "inspect", "predictions", "swebench")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or that of an evaluation that was kept")
    parser.add_argument("--to", required=True, choices=FORMATS, help="the format")
    parser.add_argument("--out", required=True, metavar="PATH", help="a folder; for hf-messages and predictions a file; not there yet")
    parser.add_argument(
        "--phase", default="*", metavar="PHASE", help="its attempts alone: rft, stage1, evaluate-2, evaluate (default: all)"
    )
    parser.add_argument("--solved", action="store_true", help="those alone that solved their task")
    parser.add_argument("--hide", action="append", default=[], metavar="PATTERN", help="replace what this regular expression matches")
    parser.add_argument("--instead", default="[hidden]", metavar="TEXT", help="what stands in its place (default: [hidden])")


def run(arguments: argparse.Namespace) -> int:
    """Write, and tell how many; 1 where some attempts could not be written."""
    from patchgrad.runs.exports.exporting import Wanted, exported
    from patchgrad.runs.exports.hidden import Hidden
    from patchgrad.store import Run

    refused = Refused()
    wanted = Wanted(arguments.phase, arguments.solved, Hidden.of(arguments.hide, arguments.instead))
    count = exported(Run.open(arguments.run), arguments.to, wanted, Path(arguments.out), refused)
    for sentence in refused.sentences:
        print(f"patchgrad: {sentence}", file=sys.stderr)
    print(f"{count} attempts of {arguments.run} are in {arguments.out}")
    return 1 if refused.errors else 0
