"""take the turns of an attempt again and see whether the sandbox answers as it did, or look around after one of them

Attempts go by the names that a run's tables have for them. With --shell the commands that you type run where the agent stood:

  patchgrad replay runs/laptop stage1/0/3/2
  patchgrad replay runs/laptop stage1/0/3/2 --turn 4 --shell
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from difflib import unified_diff
from typing import TYPE_CHECKING

from patchgrad.errors import ConfigError

if TYPE_CHECKING:
    from patchgrad.runs.inspection.replay import Replayed
    from patchgrad.store import Run
    from patchgrad.values import Rollout


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or that of an evaluation that was kept")
    parser.add_argument("attempt", metavar="ATTEMPT", help="an attempt's name, such as stage1/0/3/2")
    parser.add_argument("--turn", metavar="N", type=int, help="only the first N turns (default: all)")
    parser.add_argument("--shell", action="store_true", help="instead, run the commands of the standard input in the state after them")
    parser.add_argument("--json", action="store_true", help="one JSON object a turn")


def run(arguments: argparse.Namespace) -> int:
    """Replay, tell, and exit with 1 where an answer or a state is another one."""
    from patchgrad.runs.inspection.replay import find
    from patchgrad.store import Run

    folder = Run.open(arguments.run)
    found = find(folder, arguments.attempt)
    count = len(found.trajectory.turns) if arguments.turn is None else arguments.turn
    if not 0 <= count <= len(found.trajectory.turns):
        raise ConfigError(f"{arguments.attempt} has {len(found.trajectory.turns)} turns: --turn is a number up to that.")
    return asyncio.run((_shell if arguments.shell else _again)(folder, found, count, arguments.json))


async def _again(folder: Run, found: Rollout, count: int, as_json: bool) -> int:
    from patchgrad.runs.build.harness import agent, sandboxes
    from patchgrad.runs.components.code import registry_of
    from patchgrad.runs.inspection.replay import replay
    from patchgrad.runs.reading import setting_of

    setting, registry = setting_of(folder), registry_of(folder)
    boxes, good = sandboxes(setting.sandbox, registry), 0
    try:
        async with await boxes.open(found.task) as sandbox:
            async for one in replay(found.trajectory.turns[:count], agent(setting.agent, registry), sandbox):
                good += one.answer != "different" and one.same_state
                print(json.dumps(_plain(one)) if as_json else "\n".join(_lines(one)), flush=True)
    finally:
        await boxes.close()
    if not as_json:
        print(f"{good} of {count} turns are as they were.")
    return 0 if good == count else 1


async def _shell(folder: Run, found: Rollout, count: int, as_json: bool) -> int:
    from patchgrad.runs.build.harness import sandboxes
    from patchgrad.runs.components.code import registry_of
    from patchgrad.runs.inspection.replay import opened
    from patchgrad.runs.reading import setting_of

    boxes = sandboxes(setting_of(folder).sandbox, registry_of(folder))
    prompt = "$ " if sys.stdin.isatty() else ""
    try:
        async with await opened(found.task, found.trajectory.turns[:count], folder, boxes) as sandbox:
            print(prompt, end="", flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                answer = await sandbox.run(line)
                print(answer.output, end="" if answer.output.endswith("\n") or not answer.output else "\n")
                print(prompt, end="", flush=True)
    finally:
        await boxes.close()
    return 0


def _lines(one: Replayed) -> Iterator[str]:
    from patchgrad.runs.inspection.replay import told

    state = "" if one.same_state else ", and the files are others"
    yield f"turn {one.number:>3}  {one.answer}{state}: {told(one.turn)}"
    if one.answer == "different":
        before, now = one.turn.observation, one.observation
        if before.exit_code != now.exit_code:
            yield f"    exit code {before.exit_code} then, {now.exit_code} now"
        yield from (
            f"    {line}" for line in unified_diff(before.content.splitlines(), now.content.splitlines(), "then", "now", lineterm="")
        )


def _plain(one: Replayed) -> dict[str, object]:
    from patchgrad.runs.inspection.replay import told

    return {"turn": one.number, "call": told(one.turn), "answer": one.answer, "same_state": one.same_state}
