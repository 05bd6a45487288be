"""bring in tasks of others: rows of SWE-bench and its kin, Harbor folders, data sets of the hub

Every column is kept, so that an export gives the same rows again. Exit code 1: some rows could not be read; each is told, the others are
in the set.

  patchgrad tasks import rows.jsonl --out sets/verified              the format is told from the columns
  patchgrad tasks import nebius/SWE-rebench:filtered --out sets/rebench
  patchgrad tasks import harbor-tasks/ --out sets/harbor
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from patchgrad.cli.options import told
from patchgrad.errors import Refused
from patchgrad.tasks.formats import FORMATS
from patchgrad.tasks.formats.exchange import import_set, read_digests
from patchgrad.values import Task


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    known = "\n".join([*(f"  {format.name:<15} {format.title}" for format in FORMATS.values()), "  harbor          Harbor tasks"])
    parser.epilog = f"{parser.epilog}\n\nformats:\n{known}"
    parser.add_argument("source", metavar="SOURCE", help="a file of rows, a folder of Harbor tasks or Parquet files, or OWNER/NAME[:SPLIT]")
    parser.add_argument("--out", metavar="SET", help="the set's folder, made or added to (default: named as the source)")
    parser.add_argument("--format", metavar="F", default="", help="what the rows are, where their columns do not tell")
    parser.add_argument("--digests", metavar="FILE", help="digests of images: a JSON object, or lines of NAME sha256:...")
    parser.add_argument("--split", metavar="NAME", default="", help="the tasks' split; tasks of SWE-bench's repositories stay evaluation")
    parser.add_argument("--json", action="store_true", help="what was imported, as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Read everything, then write the set; 1 where some of it could not be read."""
    source = str(arguments.source)
    out = Path(arguments.out or _default(source))
    digests = read_digests(Path(arguments.digests)) if arguments.digests else None
    refused = Refused()
    found = import_set(source, out, arguments.format, digests, arguments.split, refused)
    refused.unless(found)
    tasks = [member.task for member in found]
    lacking = {name: sum(map(lacks, tasks)) for name, (lacks, _) in _LACKS.items()}
    counts = {name: dict(Counter(task.tags.get(name, "") for task in tasks)) for name in ("source", "split")}
    if arguments.json:
        print(json.dumps({"set": str(out), "tasks": len(tasks), **counts, **lacking, **refused.told}))
        return told(refused.sentences)
    splits = ", ".join(f"{n} {name}" for name, n in counts["split"].items())
    print(f"{len(tasks)} tasks from {', '.join(counts['source'])} are in {out} ({splits}).")
    for name, (_, says) in _LACKS.items():
        if lacking[name]:
            print(f"{lacking[name]} of them {says}.")
    return told(refused.sentences)


def _without_command(task: Task) -> bool:
    """Nothing but pytest is said to run its tests, and none of them is named as pytest names them."""
    named = (*task.checks.fail_to_pass, *task.checks.pass_to_pass)
    return task.checks.command == ("pytest",) and bool(named) and not any(".py" in test for test in named)


def _fetches(task: Task) -> bool:
    """Does the verifier of a Harbor task ask for something that is fetched?"""
    return any(file.path == ".harbor/tests/test.sh" and _FETCH.search(file.content) for file in task.checks.files)


_FETCH = re.compile(r"^[^#\n]*\b(curl|wget|apt-get|apt|apk|uvx|git clone|(pip3?|npm|uv|cargo|go|gem)( \w+)? (install|add))\b", re.MULTILINE)
_LACKS: Mapping[str, tuple[Callable[[Task], bool], str]] = {
    "without_digest": (
        lambda task: task.repository.kind == "image" and not task.repository.digest,
        "name an image without a digest and cannot be opened yet: give the digests, --digests FILE",
    ),
    "cannot_run": (
        lambda task: "harbor.hindrance" in task.tags,
        "cannot run here as Harbor runs them: whoever opens one is told why",
    ),
    "without_network": (
        _fetches,
        "fetch something in their tests/test.sh, and sandboxes have no network: put it into their images, or no repair counts",
    ),
    "without_tests": (
        lambda task: not task.checks.fail_to_pass and not task.checks.pass_to_pass,
        "name no tests, so that nothing solves them: they are kept for what else they say",
    ),
    "without_command": (
        _without_command,
        "name tests that are not pytest's and no command that runs them: only recorded logs of theirs can be graded",
    ),
}


def _default(source: str) -> str:
    """`data/rows.jsonl.gz` -> `rows`, `nebius/SWE-rebench:filtered` -> `SWE-rebench`, a folder `tasks` -> `tasks-set`."""
    name = Path(source.rstrip("/")).name
    if Path(source).is_dir():
        return f"{name}-set"
    return re.sub(r"(\.(jsonl|ndjson|json|parquet|gz))+$|:.*$", "", name)
