"""measure a trained policy on held-out tasks: Pass@1 with its standard error, Pass@k, turns, minutes

RUN is a folder that `patchgrad train` made; its recipe's fields can be set for this evaluation only:

  patchgrad evaluate runs/laptop
  patchgrad evaluate runs/laptop --evaluation.attempts 10 --json
  patchgrad evaluate runs/laptop --checkpoint rft-0
"""

from __future__ import annotations

import argparse
import json

from patchgrad.cli import options as shared
from patchgrad.config import loads, override
from patchgrad.evaluation import markdown
from patchgrad.store import Run, plain


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("--checkpoint", metavar="STEP", help="one of the run's checkpoints (default: the last)")
    parser.add_argument("--json", action="store_true", help="no progress; the report as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print; the run's folder is only read."""
    from patchgrad import recipes
    from patchgrad.viewer.progress import choose

    store = Run.open(arguments.run)
    recipe = override(loads(recipes.Recipe, store.recipe), arguments.changes)
    with shared.installed(), choose(quiet=arguments.json) as progress:
        report = recipes.evaluate(store, recipe, arguments.checkpoint, progress)
    print(json.dumps(plain(report)) if arguments.json else markdown([report]), end="\n" if arguments.json else "")
    return 0
