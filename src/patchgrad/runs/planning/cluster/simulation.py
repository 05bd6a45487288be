"""A stage on many machines in simulated time: attempts over replicas, sandboxes and a trainer, one event after the other.

    attempt -> its replica reads the prompt -> draws an action -> a tool runs -> reads the observation -> ... -> grading
    all attempts of an iteration -> training -> publication -> attempts of later iterations, as the lag allows

A replica draws a token for all of its streams at once, in the time in which it reads all weights and their keys and values. So it has a
clock of tokens that runs the slower the more it holds, and an action ends when that clock has gone on by its tokens. Not simulated: what
fails, ranks that wait for one another, caches that are read again after an update, the network between machines.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from statistics import fmean
from typing import Any

from patchgrad.runs.planning.cluster.world import Script, World


@dataclass(frozen=True, slots=True)
class Iterated:
    """Seconds of the iterations: each in all, the part until its last attempt had ended, and of training.

    Of all seconds samplers had nothing to draw in a share of `idle`, and the trainer was `busy` in another. `behind` is how many
    publications ago an attempt of an iteration had begun when it was trained, in the mean and at `most`; `drawn` are tokens a second of all
    replicas.
    """

    seconds: tuple[float, ...]
    sampling: tuple[float, ...]
    training: tuple[float, ...]
    idle: float
    busy: float
    behind: float
    most: int
    drawn: float

    @property
    def iteration(self) -> float:
        """Seconds of an iteration in the mean; where sampling runs ahead the first one, which has nothing begun before it, is left out."""
        return fmean(self.seconds[1:] if len(self.seconds) > 1 else self.seconds)


@dataclass(slots=True)
class _Stream:
    """An attempt by its number: its iteration, the publication under which it began, how many turns it has taken, and its tokens so far."""

    number: int
    iteration: int
    script: Script
    replica: _Replica | None = None
    began: int = 0
    taken: int = 0
    context: int = 0

    @property
    def done(self) -> bool:
        """Has it taken all of its turns?"""
        return self.taken == len(self.script.turns)


@dataclass(slots=True)
class _Replica:
    """Tokens that each stream was drawn so far, at time `now`; the streams that draw by where they end, and what they hold."""

    world: World
    live: int = 0
    now: float = 0.0
    tokens: float = 0.0
    held: float = 0.0
    reads_until: float = 0.0
    idle: float = 0.0
    asked: int = 0
    drawing: list[tuple[float, int, _Stream]] = field(default_factory=list)

    def rate(self) -> float:
        """Tokens a second of each stream."""
        world, rates = self.world, self.world.rates
        bytes_read = 2 * world.model.parameters + world.model.cache * self.held
        step = bytes_read / (world.machines.kind.bandwidth * rates.bandwidth * world.split) + rates.step
        return (1.0 if self.reads_until <= self.now else rates.beside) / step

    def to(self, now: float) -> None:
        """Time goes on."""
        if self.drawing:
            self.tokens += (now - self.now) * self.rate()
        else:
            self.idle += now - self.now
        self.now = now


class _Events:
    """What happens at which time, in that order; of two at one time the one that was said first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()

    def at(self, time: float, act: Callable[..., None], *given: Any) -> None:
        """This is done then."""
        heapq.heappush(self._heap, (time, next(self._order), act, given))

    def run(self) -> float:
        """All of it; when the last thing happened."""
        now = 0.0
        while self._heap:
            now, _, act, given = heapq.heappop(self._heap)
            act(now, *given)
        return now


class Simulation:
    """One run of a stage. The same seed gives the same."""

    def __init__(self, world: World, seed: int = 0) -> None:
        self._world, self._random = world, Random(seed)
        self._events = _Events()
        self._replicas = [_Replica(world) for _ in range(world.replicas)]
        self._slots = slots(world, world.room())
        self._left = [world.tasks * world.attempts] * world.iterations
        self._waiting, self._held = deque[_Stream](), list[tuple[_Stream, int]]()
        self._streams: list[list[_Stream]] = [[] for _ in range(world.iterations)]
        self._state = _State()

    def run(self) -> Iterated:
        """All iterations."""
        self._begin(0.0)
        now, told = self._events.run(), self._state
        return Iterated(
            tuple(told.seconds),
            tuple(told.sampling),
            tuple(told.training),
            sum(one.idle for one in self._replicas) / (len(self._replicas) * now),
            sum(told.training) / now,
            fmean(told.behind),
            max(told.behind),
            sum(turn.drawn for streams in self._streams for one in streams for turn in one.script.turns) / now,
        )

    # --- attempts --------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        """The attempts of all iterations that the lag allows are under way."""
        world, told = self._world, self._state
        while told.begun < min(world.iterations, told.published + world.lag + 1):
            size = world.tasks * world.attempts
            made = [_Stream(told.begun * size + number, told.begun, world.draw(self._random)) for number in range(size)]
            self._streams[told.begun] = made
            self._waiting.extend(made)
            told.begun += 1
        self._admit(now)

    def _admit(self, now: float) -> None:
        """Attempts that wait begin where there is room, at the replica with the fewest."""
        while self._waiting and not self._state.paused:
            replica = min(self._replicas, key=lambda one: one.live)
            if replica.live >= self._slots:
                return
            stream = self._waiting.popleft()
            replica.live += 1
            stream.replica, stream.began, stream.context = replica, self._state.published, stream.script.prompt
            self._read(now, stream, stream.script.prompt)

    def _read(self, now: float, stream: _Stream, tokens: int) -> None:
        """Its replica reads so many tokens, one stream after the other, and then draws; while weights change it waits."""
        if self._state.paused:
            self._held.append((stream, tokens))
            return
        world, replica = self._world, _of(stream)
        replica.to(now)
        speed = world.machines.kind.flops * world.split * world.rates.reading / (2 * world.model.parameters)
        replica.reads_until = max(now, replica.reads_until) + tokens / speed
        self._events.at(replica.reads_until, self._draw, stream)

    def _draw(self, now: float, stream: _Stream) -> None:
        replica, turn = _of(stream), stream.script.turns[stream.taken]
        replica.to(now)
        heapq.heappush(replica.drawing, (replica.tokens + turn.drawn, stream.number, stream))
        replica.held += stream.context
        self._look(now, replica)

    def _look(self, now: float, replica: _Replica) -> None:
        """The next action to end is awaited, as fast as the replica draws from now on."""
        replica.asked += 1
        if replica.drawing:
            left = max(0.0, replica.drawing[0][0] - replica.tokens)
            self._events.at(now + left / replica.rate(), self._drawn, replica, replica.asked)

    def _drawn(self, now: float, replica: _Replica, asked: int) -> None:
        """An action has ended, if nothing has changed since it was looked at; its tool runs, or its attempt has ended."""
        if asked != replica.asked:
            return
        replica.to(now)
        _, _, stream = heapq.heappop(replica.drawing)
        replica.held -= stream.context
        self._look(now, replica)
        turn = stream.script.turns[stream.taken]
        stream.taken += 1
        stream.context += turn.drawn + turn.observed
        self._state.running += 1
        slow = max(1.0, self._state.running * self._world.busy / (self._world.machines.cores * self._world.machines.nodes))
        self._events.at(now + (turn.seconds + (stream.script.grading if stream.done else 0.0)) * slow, self._answered, stream)
        if stream.done:
            replica.live -= 1
            self._admit(now)

    def _answered(self, now: float, stream: _Stream) -> None:
        """A tool has answered, or an attempt is graded."""
        self._state.running -= 1
        if stream.done:
            self._left[stream.iteration] -= 1
            self._train(now)
        else:
            self._read(now, stream, stream.script.turns[stream.taken - 1].observed)

    # --- training --------------------------------------------------------------------------------

    def _train(self, now: float) -> None:
        """The next iteration is trained, when all of its attempts have ended and the one before is published."""
        world, told = self._world, self._state
        number = len(told.seconds)
        if told.trains or number == world.iterations or self._left[number]:
            return
        told.trains, told.paused = True, world.in_turn
        streams = self._streams[number]
        taught = self._random.sample(streams, max(1, round(len(streams) * world.taught)))
        gpus = world.trainers * world.machines.gpus
        speed = gpus * world.machines.kind.flops * world.rates.training
        work = sum(one.context * world.model.training(one.context) for one in taught) / speed
        work += max(1, round(len(taught) / world.minibatch)) * world.rates.optimiser
        told.behind += [told.published - one.began for one in streams]
        told.sampling.append(now - told.last)
        told.training.append(work)
        self._events.at(now + work + (world.rates.switch if world.in_turn else 0.0), self._trained)

    def _trained(self, now: float) -> None:
        """While a publication is under way nothing new is drawn."""
        self._state.paused = True
        self._events.at(now + self._world.rates.publish, self._published)

    def _published(self, now: float) -> None:
        told = self._state
        told.published += 1
        told.trains, told.paused = False, False
        told.seconds.append(now - told.last)
        told.last = now
        held, self._held = self._held, []
        for stream, tokens in held:
            self._read(now, stream, tokens)
        self._begin(now)
        self._train(now)


@dataclass(slots=True)
class _State:
    """What is the case, and what was seen."""

    begun: int = 0
    published: int = 0
    running: int = 0
    trains: bool = False
    paused: bool = False
    last: float = 0.0
    seconds: list[float] = field(default_factory=list)
    sampling: list[float] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)


def _of(stream: _Stream) -> _Replica:
    if stream.replica is None:
        raise ValueError("an attempt that was not admitted")
    return stream.replica


def slots(world: World, room: float) -> int:
    """How many attempts a replica takes: as many as fill its caches in the mean, and no more than its part of those that may live."""
    random = Random(0)
    scripts = [world.draw(random) for _ in range(200)]
    mean = fmean((one.prompt + one.context) / 2 for one in scripts)  # a live attempt is half way in the mean
    return max(1, min(int(room / mean), -(-world.live // max(1, world.replicas))))
