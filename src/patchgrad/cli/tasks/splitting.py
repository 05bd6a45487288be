"""say which tasks of a set are held out: whole repositories with their look-alikes, families, kinds, or what came last

Repositories that share ideas or code are on one side; evaluation tasks stay what they are:

  patchgrad tasks split sets/mine --by repository --held-out 0.2
  patchgrad tasks split sets/mine --by repository --held-out semver,isodate
  patchgrad tasks split sets/mine --by family --held-out cmp_boundary,remove_except
  patchgrad tasks split sets/mine --by date --held-out 2026-06-01          since that day
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import get_args

from patchgrad.cli.options import told
from patchgrad.errors import ConfigError, Refused
from patchgrad.tasks.sets import members, save
from patchgrad.tasks.splits import By, split


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("set", metavar="SET", help="a set's folder, which is changed")
    parser.add_argument("--by", choices=get_args(By), default="repository", help="what stays together (default: repository)")
    parser.add_argument("--held-out", metavar="WHAT", required=True, help="a share of the tasks, such as 0.2, or names with commas")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which ones make up a share (default: 0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Split, and count."""
    folder = Path(arguments.set)
    refused = Refused()
    there = members(folder, refused)
    refused.unless(there)
    found = save(folder, split(there, arguments.by, _held_out(arguments.held_out), arguments.seed))
    counts = dict(Counter(member.task.tags.get("split", "") for member in found))
    packages = {side: len({m.task.tags.get("package", "") for m in found if m.task.tags.get("split") == side}) for side in counts}
    if arguments.json:
        print(json.dumps({"set": arguments.set, "tasks": counts, "packages": packages}))
    else:
        for side, count in sorted(counts.items()):
            print(f"{side:<10} {count} tasks of {packages[side]} packages")
    return told(refused.sentences)


def _held_out(words: str) -> float | list[str]:
    try:
        share = float(words)
    except ValueError:
        return [name.strip() for name in words.split(",") if name.strip()]
    if not 0 < share < 1:
        raise ConfigError(f"--held-out {words}: a share lies between 0 and 1.")
    return share
