"""What it costs to keep every turn: beside TRL's asynchronous bookkeeping, mini-swe-agent's saving, and a whole run.

    python benchmarks/journal.py [--rounds 5] [--turns 8,32,128] [--no-peers] [--recipe laptop]

Three questions, a table, and JSON last. Rounds of all sides alternate, so that whatever else the machine does hits each of them; CPU
seconds throughout.

tokens    the ids of one attempt, from its messages to a training row, journalled as it goes: `encode`, the chain of turns, the journal,
          a `Sample`. Beside it TRL's asynchronous worker: the template over the whole conversation each turn, then
          `_chain_to_sequences`; what parses its answers is left out, to its favour. The same tokenizer, template and texts.
saving    250 turns: what is written and how long it takes, beside mini-swe-agent's `DefaultAgent` with its own `DeterministicModel`.
share     of a run of `smoke`, or of the recipe that is named: CPU seconds of the thread while turns, states and endings are written,
          over all that the run takes; and its table, whose minutes are those of the clock.
"""

from __future__ import annotations

import asyncio

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from patchgrad.store.journal.states import States
from peers import TRL, interpreter

from patchgrad.config import dumps
from patchgrad.evaluation.table import row
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes import RECIPES
from patchgrad.runs.api import train
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.values import (
    NO_IDS,
    Action,
    Call,
    Ids,
    Message,
    Observation,
    Origin,
    Report,
    Sample,
    Segment,
    ToolState,
    Turn,
    floats,
    ids,
    stream_digest,
)

HERE = Path(__file__).resolve().parent
PEERS = {"trl": TRL, "mini-swe-agent": ("mini-swe-agent==2.4.6",)}
SAVED = 250
OBSERVATION, ACTION = 3000, 240  # letters: about a thousand tokens and eighty, so that 128 turns are about 131k
Seconds = dict[str, list[float]]


def conversation(turns: int) -> list[Message]:
    """System, issue, then an answer and an observation for each turn: lines of code as a file viewer shows them."""
    said = [Message("system", "You repair a repository. " * 40), Message("user", "The total of an empty cart is 3 instead of 0. " * 20)]
    for number in range(turns):
        lines = [f"{number * 40 + n}:    total = total + price * count_{n} if item in basket else discount({n})" for n in range(60)]
        said.append(Message("assistant", f"Look at line {number}.\n```command\nopen cart_{number}.py {number}\n```" + " and so on" * 18))
        said.append(Message("user", "\n".join(lines)[:OBSERVATION]))
    return said


def kept(said: list[Message], tokenizer: ChatTokenizer, run: Run, name: str) -> tuple[int, list[float], list[float]]:
    """One attempt as a rollout keeps it: tokens of its row, the seconds of each turn and at last of the row, and those of writing alone."""
    previous, stream, turns, spent, writing = None, NO_IDS, list[Turn](), list[float](), list[float]()
    waiting = said[:2]
    for answer, observed in zip(said[2::2], said[3::2], strict=True):
        start = time.thread_time()
        context = tokenizer.encode(waiting, previous)
        stream = np.concatenate([stream, context])
        sampled = ids([*tokenizer.action(answer.content)])
        origin = Origin(stream_digest(stream), tokenizer.fingerprint)
        previous = Action(sampled, floats(np.full(len(sampled), -0.5)), 0, answer.content, "stop", origin=origin)
        stream = np.concatenate([stream, sampled])
        parent = turns[-1].address if turns else name
        turns.append(Turn(context, previous, Call("open", "cart.py"), Observation(observed.content, ToolState(), 0), "", parent))
        before = time.thread_time()
        asyncio.run(run.journal.turn(name, turns[-1]))
        writing.append(time.thread_time() - before)
        waiting = [observed]
        spent.append(time.thread_time() - start)
    start = time.thread_time()
    segment = Segment(tuple(turns))
    count = len(segment.logprobs())
    sample = Sample.of(segment, floats(np.ones(count)), np.ones(count, bool), name, "group")
    row: Ids = sample.segment.tokens()
    spent.append(time.thread_time() - start)
    return len(row), spent, writing


def of_tokens(turns: int, tokenizer: ChatTokenizer) -> tuple[int, list[float], list[float]]:
    """`kept`, in a run of its own."""
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", "") as run:
        return kept(conversation(turns), tokenizer, run, "t/0")


def of_saving(tokenizer: ChatTokenizer) -> tuple[float, int]:
    """CPU seconds and bytes of so many journalled turns."""
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", "") as run:
        _, spent, _ = kept(conversation(SAVED), tokenizer, run, "t/0")
        size = sum(path.stat().st_size for path in run.journal.records.files())
    return sum(spent), size


def of_a_run(name: str) -> tuple[dict[str, float], list[Report]]:
    """Seconds of the thread that writes, and of everything that the run has started; and what the run says of its policies."""
    spent: dict[str, float] = defaultdict(float)

    def counted(owner: type, name: str) -> Callable[[], None]:
        real = getattr(owner, name)

        def call(*words: Any, **more: Any) -> Any:
            start = time.thread_time()
            try:
                return real(*words, **more)
            finally:
                spent[name] += time.thread_time() - start

        setattr(owner, name, call)
        return lambda: setattr(owner, name, real)

    undo = [counted(Run, "write_turn"), counted(Run, "write_ending"), counted(States, "put")]
    before = _cpu()
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", dumps(RECIPES[name]())) as run:
        train(RECIPES[name](), run, Silent())
        reports = run.reports()
    for back in undo:
        back()
    return {**spent, "all": _cpu() - before}, reports


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peer(name: str, *words: str) -> dict[str, Any]:
    """A peer's figures, from its own environment."""
    python = interpreter(name, PEERS[name])
    done = subprocess.run([python, HERE / "journal_peers.py", name, *words], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr.strip()[-500:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(rounds: int, lengths: list[int], peers: bool) -> tuple[Seconds, dict[str, float]]:
    """Seconds by side and figure, a value a round, and what is no time."""
    found, facts = defaultdict[str, list[float]](list), dict[str, float]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tokenizer = ChatTokenizer.train([message.content for message in conversation(40)], 1024)
        tokenizer.save(folder / "tokenizer")
        for turns in lengths:
            (folder / f"{turns}.json").write_text(json.dumps([[m.role, m.content] for m in conversation(turns)]))
        (folder / "saved.json").write_text(json.dumps([[m.role, m.content] for m in conversation(SAVED)]))
        for _ in range(rounds):
            for turns in lengths:
                tokens, spent, writing = of_tokens(turns, tokenizer)
                found[f"tokens {turns} patchgrad"].append(sum(spent))
                facts[f"tokens {turns}"] = tokens
                if turns == max(lengths):
                    for name, seconds in (("turn", spent[:-1]), ("writing", writing)):
                        found[f"{name} early"].append(statistics.median(seconds[4:12]))
                        found[f"{name} late"].append(statistics.median(seconds[-8:]))
                if peers:
                    told = peer("trl", str(folder / "tokenizer"), str(folder / f"{turns}.json"))
                    found[f"tokens {turns} trl"].append(told["seconds"])
                    facts[f"tokens {turns} trl"] = told["tokens"]
            seconds, size = of_saving(tokenizer)
            found["saving patchgrad"].append(seconds)
            facts["bytes patchgrad"] = size
            if peers:
                told = peer("mini-swe-agent", str(folder / "saved.json"))
                found["saving mini-swe-agent"].append(told["seconds"])
                facts["bytes mini-swe-agent"] = told["bytes"]
    return found, facts


def ratio(one: list[float], other: list[float]) -> dict[str, float]:
    """The median over rounds of one / other, and the least and the most."""
    each = [a / b for a, b in zip(one, other, strict=True)]
    return {"median": statistics.median(each), "low": min(each), "high": max(each)}


def shown(one: dict[str, float]) -> str:
    return f"{one['median']:.1f} x ({one['low']:.1f} to {one['high']:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", default="8,32,128")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--recipe", default="smoke", choices=RECIPES)
    wanted = parser.parse_args()
    lengths = [int(turns) for turns in wanted.turns.split(",")]
    found, facts = measured(wanted.rounds, lengths, not wanted.no_peers)
    told: dict[str, Any] = {"facts": facts, "seconds": found}
    for turns in lengths:
        own, theirs = found[f"tokens {turns} patchgrad"], found.get(f"tokens {turns} trl")
        line = f"{turns:>4} turns, {facts[f'tokens {turns}']:>7.0f} tokens: {1000 * statistics.median(own):7.1f} ms"
        if theirs:
            told[f"trl over patchgrad, {turns}"] = ratio(theirs, own)
            line += f"; TRL {1000 * statistics.median(theirs):8.1f} ms, {shown(ratio(theirs, own))}"
        print(line)
    for name, what in (("turn", "one of the last turns"), ("writing", "to journal it")):
        told[f"{name}, late over early"] = ratio(found[f"{name} late"], found[f"{name} early"])
        print(f"{what} of {max(lengths)} over one of the first: {shown(told[f'{name}, late over early'])}")
    if theirs := found.get("saving mini-swe-agent"):
        told["mini-swe-agent over patchgrad"] = ratio(theirs, found["saving patchgrad"])
        size = facts["bytes mini-swe-agent"] / facts["bytes patchgrad"]
        print(f"{SAVED} turns saved: mini-swe-agent {shown(told['mini-swe-agent over patchgrad'])} the time and {size:.0f} x the bytes")
    share, reports = of_a_run(wanted.recipe)
    told["run"], told["minutes"] = share, {report.name: report.seconds / 60 for report in reports}
    print(*("  ".join(row(report)) for report in reports), sep="\n")
    told["share"] = (share["write_turn"] + share["write_ending"] + share["put"]) / share["all"]
    print(f"of a run of {wanted.recipe} {100 * told['share']:.2f} % of {share['all']:.0f} CPU seconds")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
