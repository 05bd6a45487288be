"""The processes of a sharded trainer: started on this machine, or by torchrun on several."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from threading import Thread
from typing import Literal

import torch
from torch._C._distributed_c10d import TCPStore

from patchgrad.errors import ConfigError, TrainerFault
from patchgrad.trainers.sharded.calls import Deadlines, Hello, Ranks, put, take
from patchgrad.trainers.sharded.serving import serve
from patchgrad.trainers.sharded.world import Meeting

Device = Literal["cpu", "cuda"]
PATIENT = Deadlines()
ADDRESS = "patchgrad"
LOOPBACK = "127.0.0.1"
OPENING = 120.0  # seconds in which a process has to say that it is there; importing torch on a busy machine takes some


@dataclass(slots=True)
class Launched:
    """Ranks that are there, and where they meet."""

    ranks: Ranks
    store: TCPStore
    processes: Sequence[subprocess.Popen[str]]
    sizes: Sequence[int]
    networks: Iterator[int] = field(default_factory=partial(count, 1))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ranks.links)

    def close(self) -> None:
        """Each rank ends as its link is closed; one of this machine that does not within seconds is killed."""
        self.ranks.close()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def launched(number: int, device: Device, together: int) -> Launched:
    """The ranks that torchrun has started, whose first runs this; without it so many of this machine.

    Raises `ConfigError` where torchrun has started another number.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return here(number, device, together)
    if (world := int(os.environ["WORLD_SIZE"])) != number:
        raise ConfigError(f"torchrun has started {world} processes, and the recipe is for {number} ranks: start as many")
    return _started(device, together)


def here(number: int, device: Device = "cpu", together: int = 1, deadlines: Deadlines = PATIENT) -> Launched:
    """So many ranks as processes of this machine; with GPUs each has one of its own. At most so many `together` share a sequence."""
    if device == "cuda" and number > (seen := torch.cuda.device_count()):
        raise ConfigError(
            f"the recipe has {number} ranks, and torch sees {seen} GPUs here: start it by torchrun on as many machines as it takes, or set "
            "trainer.ranks"
        )
    key = secrets.token_bytes(32)
    with socket.create_server((LOOPBACK, 0), backlog=number) as server:
        processes = [_begun(server.getsockname(), key, rank) for rank in range(number)]
        links = _arrived(server, key, number, processes)
    return _introduced(Launched(_met(links, deadlines), _store(LOOPBACK), processes, sizes(number, together)), device)


def _started(device: Device, together: int) -> Launched:
    """The ranks of torchrun. The first process of torchrun trains, so its rank is a process of its own; all others `attend`."""
    host, number, key = os.environ["MASTER_ADDR"], int(os.environ["WORLD_SIZE"]), secrets.token_bytes(32)
    with socket.create_server((host, 0), backlog=number) as server:
        processes = [_begun(server.getsockname(), key, 0)]
        _torchrun().set(ADDRESS, json.dumps([*server.getsockname()[:2], key.hex()]))
        links = _arrived(server, key, number, processes)
    return _introduced(Launched(_met(links, PATIENT), _store(host), processes, sizes(number, together)), device)


def attend() -> None:
    """Serves as a rank of the first process of torchrun, as long as that trains."""
    host, port, key = json.loads(_torchrun().get(ADDRESS))
    serve((host, port), bytes.fromhex(key), int(os.environ["RANK"]), lambda: os._exit(0))


def _torchrun() -> TCPStore:
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


def _begun(address: tuple[str, int], key: bytes, rank: int) -> subprocess.Popen[str]:
    """A rank's process, which is told the secret on its standard input, where no list of processes shows it."""
    command = [sys.executable, "-m", "patchgrad.trainers.sharded.serving", *map(str, address[:2]), str(rank)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    if process.stdin:
        with process.stdin as told:
            told.write(key.hex() + "\n")
    return process


def _arrived(server: socket.socket, key: bytes, number: int, processes: Sequence[subprocess.Popen[str]]) -> list[Connection]:
    """A link to each rank, whoever comes first; who does not know the secret is turned away, and who says nothing keeps nobody waiting."""
    links: list[Connection] = []
    last = time.monotonic() + OPENING
    server.settimeout(0.2)
    while len(links) < number:
        try:
            Thread(target=_welcome, args=(server.accept()[0], key, links), daemon=True).start()
        except TimeoutError:
            gone = [process for process in processes if process.poll() is not None]
            if gone or time.monotonic() > last:
                for process in processes:
                    process.kill()
                said = f"process {gone[0].pid} ended with {gone[0].returncode}" if gone else f"{len(links)} did within {OPENING:.0f} s"
                raise TrainerFault(f"{number} ranks of the trainer were to begin, and {said}") from None
    return links


def _welcome(arrived: socket.socket, key: bytes, links: list[Connection]) -> None:
    link = Connection(arrived.detach())
    try:
        deliver_challenge(link, key)
        answer_challenge(link, key)
        links.append(link)
    except (AuthenticationError, EOFError, OSError):
        link.close()


def sizes(ranks: int, together: int) -> list[int]:
    """How many ranks may share a sequence: of 12 ranks, at most 6, these are `[1, 2, 3, 4, 6]`."""
    return [size for size in range(1, min(ranks, together) + 1) if ranks % size == 0]


def _met(links: Sequence[Connection], deadlines: Deadlines) -> Ranks:
    """The ranks at the ends of these links, in their order."""
    hellos: list[tuple[Hello, Connection]] = []
    for link in links:
        if not link.poll(OPENING):
            raise TrainerFault(f"a rank of the trainer said nothing for {OPENING:.0f} s")
        hellos.append((take(link), link))
        put(link, sys.path)
    hellos.sort(key=lambda pair: pair[0].rank)
    return Ranks([link for _, link in hellos], [hello for hello, _ in hellos], deadlines)


def _introduced(launched: Launched, device: Device) -> Launched:
    """The ranks meet."""
    ranks, store = launched.ranks, launched.store
    meeting = Meeting(store.host, store.port, launched.count, device, tuple(launched.sizes), ranks.deadlines.collective)
    try:
        ranks.call(0, "meet", [(meeting,)] * launched.count)
    except TrainerFault:
        launched.close()
        raise
    return launched


def _store(host: str) -> TCPStore:
    return TCPStore(host, 0, is_master=True, wait_for_workers=False)
