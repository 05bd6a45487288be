"""attempts of other agents from the files that they leave: look at them, ask about them, compare them

Files are rows with messages (JSON lines, JSON, Parquet, or a data set of the hub), trajectories of Harbor (ATIF), SWE-agent and
mini-swe-agent, or folders of these; what they are is told from what they hold. The folder is that of an evaluation:

  patchgrad import jobs/2026-11-02 --out runs/claude && patchgrad view runs/claude
  patchgrad import trajectories.parquet --first 500 --out runs/openhands
  patchgrad import nebius/SWE-rebench-openhands-trajectories --first 500 --out runs/openhands
  patchgrad evaluate --compare runs/openhands runs/claude
  patchgrad export runs/openhands --to inspect --out logs
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.cli import options as shared
from patchgrad.errors import ConfigError, Refused


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("sources", metavar="FILE", nargs="+", help="a file, a folder of files, or OWNER/NAME of a data set on the hub")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder that they are put into; it must not be there yet")
    parser.add_argument("--name", default="", metavar="NAME", help="what their policy is called (default: as the files call it)")
    parser.add_argument("--first", type=int, metavar="N", help="no more than so many attempts")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Import, and tell how many; 1 where some rows could not be read."""
    from patchgrad.runs.imports.importing import imported

    if arguments.first is not None and arguments.first < 1:
        raise ConfigError(f"--first is {arguments.first}; it is how many attempts are taken, 1 or more.")
    refused = Refused()
    try:
        with shared.installed():
            found = imported(arguments.sources, Path(arguments.out), refused, arguments.name, arguments.first)
    except ConfigError:
        shared.told(refused.sentences)
        raise
    if arguments.json:
        counts = {"attempts": found.attempts, "tasks": len(found.tasks), "solved": found.solved, "others": found.others}
        print(json.dumps(counts | refused.told))
        return 1 if refused.errors else 0
    print(f"{found.attempts:,} attempts at {len(found.tasks):,} tasks are in {arguments.out}; {found.solved:,} of them solved theirs.")
    if unknown := sum(row.count(None) for row in found.outcomes.values()):
        print(f"Of {unknown:,} no file says whether they did, so no figure counts them.")
    if found.others:
        print(f"{found.others:,} of the rows and files tell of no attempt.")
    return shared.told(refused.sentences)
