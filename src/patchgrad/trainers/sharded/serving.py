"""A rank as a process: `python -m patchgrad.trainers.sharded.serving HOST PORT RANK`, with the secret on its standard input.

It ends when the process that trains does, whatever it was doing.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import torch

from patchgrad.errors import PatchgradError
from patchgrad.links.spending import spent
from patchgrad.trainers.sharded import state
from patchgrad.trainers.sharded.calls import Answer, Beat, Call, Desk, Go, Hello, Ready, put, take
from patchgrad.trainers.sharded.rank import Part, Rank, Spec, Stepped
from patchgrad.trainers.sharded.world import join
from patchgrad.values import digest


@dataclass(slots=True)
class Opened:
    """This rank's rows of one network."""

    rank: Rank
    version: int


class Serving:
    """What a rank does when it is called: it meets the others first, and opens as many networks as it is told to."""

    def __init__(self, rank: int) -> None:
        self._number = rank
        self._opened: dict[int, Opened] = {}

    def understood(self, call: Call) -> Ready:
        """What the roll call compares: the version of the weights, and of each step the team's size and micro-batch."""
        steps = call.arguments[0] if call.arguments and isinstance(call.arguments[0], list) else []
        version = self._opened[call.network].version if call.network in self._opened else 0
        return Ready(version, tuple((part.size, _known_by(part)) for part in steps))

    def answer(self, call: Call) -> Any:
        """Does what is asked for; all ranks do."""
        match call.method:
            case "meet":
                torch.set_num_threads(1)
                self._place = join(self._number, *call.arguments)
            case "open":
                self._open(call.network, *call.arguments)
            case "close":
                del self._opened[call.network]
                gc.collect()  # what is sharded refers to itself
                if self._place.device.type == "cuda":
                    torch.cuda.empty_cache()
            case _:
                return METHODS[call.method](self._opened[call.network], *call.arguments)

    def _open(self, network: int, spec: Spec, folder: Path, version: int) -> None:
        self._opened[network] = Opened(Rank(self._place, spec), version)
        self._opened[network].rank.fill(folder)


def _update(one: Opened, *arguments: Any) -> Stepped:
    one.version += 1
    return one.rank.update(*arguments)


def _load(one: Opened, folder: Path) -> int:
    one.version = state.load(one.rank, folder)
    return one.version


METHODS: Mapping[str, Callable[..., Any]] = {
    "update": _update,
    "score": lambda one, steps: one.rank.score(steps),
    "nll_excess": lambda one, steps: one.rank.nll_excess(steps),
    "reset_optimiser": lambda one: one.rank.reset_optimiser(),
    "publish": lambda one, folder: state.publish(one.rank, folder),
    "save": lambda one, folder, base, known_by: state.save(one.rank, folder, one.version, base, known_by),
    "load": _load,
}


def serve(address: tuple[str, int], key: bytes, rank: int, leave: Callable[[], None]) -> None:
    """Answers calls until the other side is gone, and leaves then. Ctrl-C is for the other side, which ends what it has begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = Client(address, authkey=key)
    put(link, Hello(rank, socket.gethostname(), os.getpid()))
    sys.path[:] = take(link)  # so that an objective of the user's is found where it was
    desk, serving = Desk(link, leave), Serving(rank)
    while True:
        call = desk.received()
        desk.working()
        try:
            desk.say(serving.understood(call))
            if isinstance(desk.received(), Go):
                answer = Answer(serving.answer(call))
                desk.say(Beat(spent()))
                desk.say(answer)
        except Exception as error:  # whatever it is, the other side has to say it
            if not isinstance(error, PatchgradError):
                traceback.print_exc()  # of code that may be the user's: an objective
            desk.say(Answer(failed=f"{type(error).__name__}: {error}"))


def _known_by(part: Part) -> str:
    one = part.micro_batch
    return "" if one is None else digest(one.tokens.tobytes().hex(), one.advantages.tobytes().hex(), one.mask.tobytes().hex())


def main() -> None:
    """A rank of this machine."""
    host, port, rank = sys.argv[1:]
    serve((host, int(port)), bytes.fromhex(sys.stdin.readline()), int(rank), lambda: os._exit(0))


if __name__ == "__main__":
    main()
