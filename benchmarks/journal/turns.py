"""What it costs to keep every turn: beside TRL's asynchronous bookkeeping, mini-swe-agent's saving, and a whole run.

    python benchmarks/journal/turns.py [--rounds 5] [--turns 8,32,128] [--no-peers] [--recipe laptop]

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
import json
import resource
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import by_turns, over, same, times
from benchmarks.library.peers import MINI_SWE_AGENT, TRL

from patchgrad.config import dumps
from patchgrad.evaluation.table import row
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes import RECIPES
from patchgrad.runs.api import train
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.store.run_journal import RunJournal
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
SAVED = 250
WRITTEN = ("turn", "state", "ending")  # of a journal
OBSERVATION, ACTION = 3000, 240  # letters: about a thousand tokens and eighty, so that 128 turns are about 131k
Figures = dict[str, float]


def conversation(turns: int) -> list[Message]:
    """System, issue, then an answer and an observation for each turn: lines of code as a file viewer shows them."""
    said = [Message("system", "You repair a repository. " * 40), Message("user", "The total of an empty cart is 3 instead of 0. " * 20)]
    for number in range(turns):
        lines = [f"{number * 40 + n}:    total = total + price * count_{n} if item in basket else discount({n})" for n in range(60)]
        said.append(Message("assistant", f"Look at line {number}.\n```command\nopen cart_{number}.py {number}\n```" + " and so on" * 18))
        said.append(Message("user", "\n".join(lines)[:OBSERVATION]))
    return said


async def kept(said: list[Message], tokenizer: ChatTokenizer, run: Run, name: str) -> tuple[int, list[float], list[float]]:
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
        await run.journal.turn(name, turns[-1])
        writing.append(time.thread_time() - before)
        waiting = [observed]
        spent.append(time.thread_time() - start)
    start = time.thread_time()
    segment = Segment(tuple(turns))
    count = len(segment.logprobs())
    sample = Sample(segment, floats(np.ones(count)), np.ones(count, bool), name, "group")
    row: Ids = sample.segment.tokens()
    spent.append(time.thread_time() - start)
    return len(row), spent, writing


def ours(turns: int, tokenizer: ChatTokenizer) -> Figures:
    """`kept`, in a run of its own: CPU seconds of all, of early and late turns and of writing these; tokens and bytes."""
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", "") as run:
        tokens, spent, writing = asyncio.run(kept(conversation(turns), tokenizer, run, "t/0"))
        size = sum(path.stat().st_size for path in run.journal.records.files())
    told = {"seconds": sum(spent), "tokens": float(tokens), "bytes": float(size)}
    for name, seconds in (("turn", spent[:-1]), ("writing", writing)) if turns > 4 else ():
        told |= {f"{name} early": statistics.median(seconds[4:12]), f"{name} late": statistics.median(seconds[-8:])}
    return told


def of_a_run(name: str) -> tuple[dict[str, float], list[Report]]:
    """Seconds of the thread that writes, and of everything that the run has started; and what the run says of its policies."""
    spent: dict[str, float] = defaultdict(float)

    def counted(name: str) -> Callable[[], None]:
        real: Callable[..., Awaitable[None]] = getattr(RunJournal, name)

        async def call(*words: Any) -> None:
            start = time.thread_time()
            try:
                await real(*words)
            finally:
                spent[name] += time.thread_time() - start

        setattr(RunJournal, name, call)
        return lambda: setattr(RunJournal, name, real)

    undo = [counted(name) for name in WRITTEN]
    before = _cpu()
    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", dumps(RECIPES[name]())) as run:
        train(RECIPES[name](), run, Silent())
        reports = run.results.reports()
    for back in undo:
        back()
    return {**spent, "all": _cpu() - before}, reports


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(rounds: int, lengths: list[int], peers: bool) -> dict[str, list[Figures]]:
    """The figures of each side, a row a round."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tokenizer = ChatTokenizer.train([message.content for message in conversation(40)], 1024)
        tokenizer.save(folder / "tokenizer")
        sides: dict[str, Callable[[int], Figures]] = {}
        for turns, peer in (*((turns, TRL) for turns in lengths), (SAVED, MINI_SWE_AGENT)):
            said = folder / f"{turns}.json"
            said.write_text(json.dumps([[m.role, m.content] for m in conversation(turns)]))
            sides[f"{turns} patchgrad"] = same(ours, turns, tokenizer)
            words = [HERE / "turns_peers.py", peer.name, str(said), "--tokenizer", str(folder / "tokenizer")]
            if peers:
                sides[f"{turns} {peer.name}"] = same(peer.answer, *words)
        return by_turns(sides, rounds)


def main() -> None:
    """Measures and prints."""
    asked = parser(__doc__)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--turns", default="8,32,128")
    asked.add_argument("--no-peers", action="store_true")
    asked.add_argument("--recipe", default="smoke", choices=RECIPES)
    wanted = asked.parse_args()
    lengths = [int(turns) for turns in wanted.turns.split(",")]
    found = measured(wanted.rounds, lengths, not wanted.no_peers)
    told: dict[str, Any] = {"sides": found}

    def of(side: str, figure: str = "seconds") -> list[float]:
        return [one[figure] for one in found[side]]

    for turns in lengths:
        line = f"{turns:>4} turns, {of(f'{turns} patchgrad', 'tokens')[-1]:>7.0f} tokens: "
        line += f"{1000 * statistics.median(of(f'{turns} patchgrad')):7.1f} ms"
        if f"{turns} trl" in found:
            told[f"trl over patchgrad, {turns}"] = ratio = over(of(f"{turns} trl"), of(f"{turns} patchgrad"))
            line += f"; TRL {1000 * statistics.median(of(f'{turns} trl')):8.1f} ms, {times(ratio)}"
        print(line)
    longest = f"{max(lengths)} patchgrad"
    for name, what in (("turn", "one of the last turns"), ("writing", "to journal it")):
        told[f"{name}, late over early"] = ratio = over(of(longest, f"{name} late"), of(longest, f"{name} early"))
        print(f"{what} of {max(lengths)} over one of the first: {times(ratio)}")
    if f"{SAVED} mini-swe-agent" in found:
        told["mini-swe-agent over patchgrad"] = ratio = over(of(f"{SAVED} mini-swe-agent"), of(f"{SAVED} patchgrad"))
        size = of(f"{SAVED} mini-swe-agent", "bytes")[-1] / of(f"{SAVED} patchgrad", "bytes")[-1]
        print(f"{SAVED} turns saved: mini-swe-agent {times(ratio)} the time and {size:.0f} x the bytes")
    share, reports = of_a_run(wanted.recipe)
    told["run"], told["minutes"] = share, {report.name: report.seconds / 60 for report in reports}
    print(*("  ".join(row(report)) for report in reports), sep="\n")
    told["share"] = sum(share.get(name, 0.0) for name in WRITTEN) / share["all"]
    print(f"of a run of {wanted.recipe} {100 * told['share']:.2f} % of {share['all']:.0f} CPU seconds")
    tell(told)


if __name__ == "__main__":
    main()
