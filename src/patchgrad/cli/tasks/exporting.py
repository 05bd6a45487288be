"""hand tasks to others: as rows of SWE-bench and its kin, Parquet, or folders that Harbor runs

What a format has no place for goes into columns of its own, so that an import gives the same tasks again. Exit code 1: some tasks could not
be written; each is told, the others were:

  patchgrad tasks export sets/mine                                   each task as it came, or as SWE-bench has it: mine.jsonl
  patchgrad tasks export sets/mine mine.parquet --format swebench
  patchgrad tasks export sets/mine --format harbor                   folders, mine-harbor/
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.cli.options import told
from patchgrad.errors import Refused, TaskError
from patchgrad.tasks.formats import FORMATS
from patchgrad.tasks.formats.exchange import HARBOR, export_set


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    known = "\n".join([*(f"  {format.name:<15} {format.title}" for format in FORMATS.values()), "  harbor          Harbor tasks"])
    parser.epilog = f"{parser.epilog}\n\nformats:\n{known}\n  parquet         each task as it came, in one Parquet file"
    parser.add_argument("set", metavar="SET", help="the folder of a task set")
    parser.add_argument("out", metavar="OUT", nargs="?", help="a file (.jsonl, .json, either with .gz, .parquet), or Harbor's folder")
    parser.add_argument("--format", metavar="F", default="", help="what to write (default: each task as it came)")
    parser.add_argument("--json", action="store_true", help="what was written, as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Write the rows or folders; 1 where some tasks could not be."""
    form, folder = arguments.format, Path(arguments.set)
    parquet = form == "parquet"
    ending = "-harbor" if form == HARBOR else ".parquet" if parquet else ".jsonl"
    out = Path(arguments.out or f"{folder.resolve().name}{ending}")
    if parquet and not out.name.endswith(".parquet"):
        raise TaskError(f"{out} does not end in .parquet, which is what --format parquet writes: rename it.")
    refused = Refused()
    count = export_set(folder, out, "" if parquet else form, refused)
    refused.unless(count)
    line = {"out": str(out), "tasks": count, **refused.told}
    print(json.dumps(line) if arguments.json else f"{count} tasks are in {out}.")
    return told(refused.sentences)
