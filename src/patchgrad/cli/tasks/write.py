"""let a language model write the statements of a set, at the level `written`

Any endpoint that speaks OpenAI's chat completions will do. Each answer is checked for leaks, sent back with the reason when it has one, and
kept, so that another call asks only for what is missing.

  patchgrad tasks write sets/mine --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-32B
  PATCHGRAD_KEY=... patchgrad tasks write sets/mine --endpoint https://example.org/v1 --model NAME
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from patchgrad.cli.options import told
from patchgrad.endpoints import KEY, Chat
from patchgrad.errors import Refused
from patchgrad.packages.sites import cache
from patchgrad.runs.trackers.terminal import choose
from patchgrad.tasks.sets import Member, members, save
from patchgrad.tasks.statements.model import LEVEL, Writer, write_all
from patchgrad.values import Advanced, Note, PhaseBegan

ANSWER = 120.0  # seconds that an endpoint has for one answer, tries included


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("set", metavar="SET", help="a set's folder, which gets the statements")
    parser.add_argument("--endpoint", metavar="URL", required=True, help="where the model is served, up to /v1")
    parser.add_argument("--model", metavar="NAME", required=True, help="its name there")
    parser.add_argument("--concurrency", metavar="N", type=int, default=8, help="questions at once (default: 8)")
    parser.add_argument("--json", action="store_true", help="one JSON object, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Write; 1 when some task got no clean statement, or a row of the set is no task."""
    folder = Path(arguments.set)
    chat = Chat(arguments.endpoint, arguments.model, os.environ.get(KEY, ""), seconds=ANSWER)
    spoiled = Refused()
    found = members(folder, spoiled)
    spoiled.unless(found)
    refused: list[str] = []
    unanswered: dict[str, str] = {}
    with choose(arguments.json) as tracker:
        tracker.event(PhaseBegan("write statements", len(found)))

        def tell(member: Member, reasons: list[str], broke: str) -> None:
            refused.extend(reasons)
            if broke:
                unanswered[member.task.id] = broke
            tracker.event(Advanced(1, {"clean": LEVEL in member.levels}))
            tracker.event(Note(f"{member.task.id}: {broke or '; '.join(reasons) or 'clean at once'}"))

        written = save(folder, asyncio.run(write_all(found, Writer(chat, cache() / "written"), max(1, arguments.concurrency), tell)))
    without = [member.task.id for member in written if LEVEL not in member.levels]
    clean = len(written) - len(without)
    if arguments.json:
        summary = {"set": arguments.set, "written": clean, "without": without, "refused_drafts": len(refused), "unanswered": unanswered}
        print(json.dumps(summary))
    else:
        print(f"{clean} of {len(written)} tasks have a statement at the level {LEVEL}; {len(refused)} drafts were refused.")
        for name, broke in unanswered.items():
            print(f"  {name}: {broke}")
    return told(spoiled.sentences) or int(bool(without))
