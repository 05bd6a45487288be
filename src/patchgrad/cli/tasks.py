"""look at the tasks of a run, or of a tasks.jsonl file

Hidden tests are named, their text is not shown:

  patchgrad tasks runs/laptop               one line a task
  patchgrad tasks runs/laptop TASK          the statement and the names of its tests
  patchgrad tasks runs/laptop --json | head one JSON object a line, whole
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.cli.options import nearest
from patchgrad.errors import TaskError
from patchgrad.store import Run, plain, value
from patchgrad.store.files import records
from patchgrad.values import Task


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("source", metavar="RUN", help="a run's folder, or a tasks.jsonl file")
    parser.add_argument("task", metavar="TASK", nargs="?", help="show this one")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """List all, or show one."""
    found = _read(Path(arguments.source))
    if arguments.task is not None and arguments.task not in found:
        raise TaskError(f"There is no task {arguments.task} in {arguments.source}; {nearest(arguments.task, list(found)[:2000])[:400]}")
    chosen = [found[arguments.task]] if arguments.task is not None else list(found.values())
    for task in chosen:
        if arguments.json:
            print(json.dumps(plain(task)))
        elif arguments.task is not None:
            _show(task)
        else:
            tests = len(task.checks.fail_to_pass) + len(task.checks.pass_to_pass)
            print(f"{task.id}  {tests} tests  {task.instruction.strip().splitlines()[0][:90] if task.instruction.strip() else ''}")
    return 0


def _read(source: Path) -> dict[str, Task]:
    if not source.is_file():
        return Run.open(source).tasks()
    tasks = [value(Task, record) for record in records(source)]
    return {task.id: task for task in tasks}


def _show(task: Task) -> None:
    print(f"{task.id}\n\n{task.instruction.strip()}\n")
    print(f"repository  {task.repository.kind} {task.repository.digest[:16]}")
    for name, tests in (("to mend", task.checks.fail_to_pass), ("to keep", task.checks.pass_to_pass)):
        for test in tests:
            print(f"{name:<10}  {test}")
    for key, tag in task.tags.items():
        print(f"{key:<10}  {tag}")
