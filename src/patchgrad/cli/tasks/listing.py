"""one line a task: of a set, of a run, or of a run's tasks.jsonl

Ids, the number of tests that decide, and the first words of the statement:

  patchgrad tasks list runs/laptop
  patchgrad tasks list sets/mine --json | head     one JSON object a line, whole
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.cli.options import told
from patchgrad.cli.tasks.source import read
from patchgrad.errors import Refused
from patchgrad.store import plain


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("source", metavar="SET_OR_RUN", help="a set's folder, a run's folder, or a tasks.jsonl file of a run")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """List all."""
    refused = Refused()
    found = read(Path(arguments.source), refused)
    refused.unless(found)
    for known in found.values():
        task = known.task
        if arguments.json:
            print(json.dumps(plain(task)))
        else:
            tests = len(task.checks.fail_to_pass) + len(task.checks.pass_to_pass)
            words = " ".join(task.instruction.split())
            print(f"{task.id}  {tests} tests  {words[:90]}")
    return told(refused.sentences)
