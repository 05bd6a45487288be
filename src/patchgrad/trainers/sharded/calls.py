"""Calls from the process that trains to its ranks, and their answers: pickles over sockets that both sides know a secret for.

A call is told to all ranks, each with arguments of its own. Before any of them may wait for another in a collective, each says what it is
about to do; only where all agree are they told to go on. A rank that computes says so every few seconds, so one that is frozen is told from
one that is slow.
"""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from patchgrad.errors import TrainerFault
from patchgrad.links.spending import ELSEWHERE, Spent, spent

BEAT = 2.0
"""Seconds between two signs of life."""

LOST = 2.0
"""Seconds in which a rank that ended is noticed; those that computed with it may say earlier that they failed."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds after which a rank is given up: one that does not answer the roll call, one without a sign of life, and one that is still
    busy; and a `collective` fails that takes so long."""

    roll: float = 30.0
    silence: float = 30.0
    call: float = 3600.0
    collective: float = 600.0


@dataclass(frozen=True, slots=True)
class Hello:
    """What a rank says first."""

    rank: int
    host: str
    process: int


@dataclass(frozen=True, slots=True)
class Call:
    """What a rank is asked for, of which of the networks that it has rows of, with arguments of its own."""

    network: int
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Before it begins: what a rank has understood. All say the same, but of teams that only their own ranks compute."""

    version: int
    steps: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Go:
    """All ranks are ready, and agree."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A rank that computes is alive, and has computed so much."""

    spent: Spent | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to; with `failed`, what went wrong instead."""

    value: Any = None
    failed: str = ""


def put(link: Connection, message: Any) -> None:
    """Sends a message whole: a connection's own way would hand tensors over as memory of this machine."""
    link.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def take(link: Connection) -> Any:
    """The next message; `EOFError` where the other side is gone."""
    return pickle.loads(link.recv_bytes())  # from one who knows the secret


@dataclass(slots=True)
class Ranks:
    """The ranks as the process that trains sees them."""

    links: Sequence[Connection]
    hellos: Sequence[Hello]
    deadlines: Deadlines = Deadlines()
    _heard: dict[int, float] = field(default_factory=dict)
    _sending: dict[int, Future[None]] = field(default_factory=dict)
    _senders: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._senders = ThreadPoolExecutor(len(self.links), "to ranks")

    def call(self, network: int, method: str, each: Sequence[tuple[Any, ...]], teams: Sequence[Sequence[range]] = ()) -> list[Any]:
        """The answers of all ranks, in their order. `teams` has of each step, by rank, the ranks that compute the same with it.

        Raises `TrainerFault`, which names the rank, where one is gone, silent or late, disagrees with others, or fails.
        """
        self._heard = dict.fromkeys(range(len(self.links)), time.monotonic())
        for rank, arguments in enumerate(each):
            self._send(rank, Call(network, method, arguments))
        ready = self._collect(Ready, method, self.deadlines.roll)
        self.agree(method, ready, teams)
        for rank in range(len(self.links)):
            self._send(rank, Go())
        answers = self._collect(Answer, method, self.deadlines.call)
        return [answers[rank].value for rank in range(len(self.links))]

    def name(self, rank: int) -> str:
        """A rank, for people."""
        hello = self.hellos[rank]
        return f"rank {rank} of {len(self.links)} (process {hello.process} on {hello.host})"

    def close(self) -> None:
        """A rank whose link is closed ends."""
        for link in self.links:
            link.close()
        self._senders.shutdown(wait=False, cancel_futures=True)

    def _send(self, rank: int, message: Any) -> None:
        """On a thread, since a rank that is frozen takes no more than fits on the way."""
        self._sending[rank] = self._senders.submit(put, self.links[rank], message)

    def _collect(self, kind: type[Any], method: str, deadline: float) -> dict[int, Any]:
        """A message of this kind from every rank. Where one is gone that is told, and not what others say of the collective it was in."""
        found, failed = dict[int, Any](), dict[int, str]()
        begun = last = time.monotonic()
        while len(found) < len(self.links):
            waiting = [rank for rank in range(len(self.links)) if rank not in found and rank not in failed]
            heard = wait([self.links[rank] for rank in waiting], timeout=0.2 if failed else 1.0)
            for rank in (rank for rank in waiting if self.links[rank] in heard):
                message = self._received(rank)
                if isinstance(message, Answer) and message.failed:
                    last = last if failed else time.monotonic() + LOST
                    failed[rank] = message.failed
                elif isinstance(message, kind):
                    found[rank] = message
            if failed and (len(found) + len(failed) == len(self.links) or time.monotonic() > last):
                rank, said = next(iter(failed.items()))
                raise TrainerFault(f"the trainer's {method} failed on {self.name(rank)}: {said}")
            self._missing(found, method, begun, deadline)
        return found

    def _received(self, rank: int) -> Any:
        try:
            message = take(self.links[rank])
        except (EOFError, OSError) as error:
            raise TrainerFault(f"{self.name(rank)} is gone: resume the run") from error
        self._heard[rank] = time.monotonic()
        if isinstance(message, Beat):
            ELSEWHERE.heard("training", message.spent)
        return message

    def _missing(self, found: Mapping[int, Any], method: str, begun: float, deadline: float) -> None:
        now = time.monotonic()
        for rank in range(len(self.links)):
            silent, sending = now - self._heard[rank], self._sending[rank]
            if sending.done() and (error := sending.exception()):
                raise TrainerFault(f"{self.name(rank)} is gone: resume the run") from error
            if rank not in found and silent > self.deadlines.silence:
                raise TrainerFault(f"{self.name(rank)} gave no sign of life for {silent:.0f} s during {method}: it is frozen or cut off")
            if rank not in found and now - begun > deadline:
                raise TrainerFault(f"{self.name(rank)} did not answer {method} within {deadline:.0f} s")

    def agree(self, method: str, ready: Mapping[int, Ready], teams: Sequence[Sequence[range]]) -> None:
        """Raises `TrainerFault` for a rank that is about to do something else than the others of its team."""
        versions = {rank: one.version for rank, one in ready.items()}
        usual = max(versions.values())
        if behind := [rank for rank, version in versions.items() if version != usual]:
            raise TrainerFault(f"{self.name(behind[0])} has version {versions[behind[0]]} of the weights before {method}, others {usual}")
        for step, of_rank in enumerate(teams):
            for rank, team in enumerate(of_rank):
                if step >= len(ready[rank].steps) or ready[rank].steps[step] != ready[team.start].steps[step]:
                    raise TrainerFault(
                        f"{self.name(rank)} was given another micro-batch in step {step} of {method} than {self.name(team.start)}"
                    )


class Desk:
    """A rank's side: calls in their order, and its own answers. It ends the process when the other side is gone."""

    def __init__(self, link: Connection, gone: Any) -> None:
        self._link, self._gone = link, gone
        self._lock = threading.Lock()
        self._mail: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._busy = False
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def received(self) -> Any:
        """The next message, whenever it comes: a trainer may be idle for hours while attempts are made."""
        return self._mail.get()

    def say(self, message: Any) -> None:
        """Sends it."""
        if isinstance(message, Answer):
            self._busy = False
        with self._lock:
            put(self._link, message)

    def working(self) -> None:
        """From now on, until the answer, there are signs of life."""
        self._busy = True

    def _read(self) -> None:
        try:
            while True:
                self._mail.put(take(self._link))
        except (EOFError, OSError):
            self._gone()

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT)
            if self._busy:
                try:
                    self.say(Beat(spent()))
                except OSError:
                    self._gone()
