"""Which rank is named where one is lost while all compute."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from itertools import count
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch.distributed as dist
from tests.trainers.test_sharded import BATCH, CONFIG, STEP
from torch import Tensor

from patchgrad.contracts import Trained
from patchgrad.errors import TrainerFault
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.decoder import Decoder
from patchgrad.trainers.optimisers import AdamW
from patchgrad.trainers.sharded.calls import Answer, Deadlines, Go, Hello, Ranks, Ready, put, take
from patchgrad.trainers.sharded.launching import here
from patchgrad.trainers.sharded.rank import Spec
from patchgrad.trainers.sharded.trainer import ShardedTrainer


def test_a_rank_that_is_gone_is_named_and_not_the_one_that_says_first_that_it_failed() -> None:
    (here_0, there_0), (here_1, there_1) = Pipe(), Pipe()
    ranks = Ranks([here_0, here_1], [Hello(0, "a", 10), Hello(1, "b", 11)], Deadlines())
    for there in (there_0, there_1):
        put(there, Ready(0, ()))

    def fail() -> None:
        while not isinstance(take(there_0), Go):
            pass
        put(there_0, Answer(failed="RuntimeError: Connection closed by peer"))
        threading.Timer(0.3, there_1.close).start()

    threading.Thread(target=fail, daemon=True).start()
    with pytest.raises(TrainerFault, match=r"^rank 1 of 2 .process 11 on b. is gone: resume the run$"):
        ranks.call(1, "update", [(), ()])


def test_a_rank_that_failed_is_named_where_none_is_gone() -> None:
    (here_0, there_0), (here_1, there_1) = Pipe(), Pipe()
    ranks = Ranks([here_0, here_1], [Hello(0, "a", 10), Hello(1, "b", 11)], Deadlines())
    put(there_0, Ready(0, ()))
    put(there_1, Answer(failed="ValueError: of the user's own"))
    with pytest.raises(TrainerFault, match=r"^the trainer's update failed on rank 1 of 2 .*: ValueError: of the user's own$"):
        ranks.call(1, "update", [(), ()])


def _dies(tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
    """An objective in which rank 1 ends."""
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Clipped()(tokens)


def test_a_rank_that_dies_inside_an_update_is_named() -> None:
    launched = here(2)
    trainer = ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW))
    with pytest.raises(TrainerFault, match=f"^rank 1 of 2 .process {launched.processes[1].pid} on .* is gone: resume the run$"):
        trainer.update(BATCH, _dies, STEP)
    assert all(process.poll() is not None for process in launched.processes)


def _for_ever(work: Callable[[int], object]) -> None:
    for number in count():
        work(number)


WORK: Mapping[str, Callable[[ShardedTrainer, Path], object]] = {
    "update": lambda trainer, _: trainer.update(BATCH, Clipped(), STEP),
    "score": lambda trainer, _: trainer.score(BATCH),
    "weights": lambda trainer, _: trainer.weights(),
    "save": lambda trainer, folder: trainer.save(folder),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("work", WORK)
def test_a_rank_that_is_lost_while_it_works_is_named_and_nothing_is_left(work: str, how: signal.Signals, tmp_path: Path) -> None:
    launched = here(2, deadlines=Deadlines(roll=6, silence=6))
    trainer, lost = ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW)), launched.processes[1].pid
    WORK[work](trainer, tmp_path / "first")
    threading.Timer(0.5, os.kill, (lost, how)).start()
    with pytest.raises(TrainerFault, match=f"^rank 1 of 2 .process {lost} on "):
        _for_ever(lambda number: WORK[work](trainer, tmp_path / str(number)))
    assert all(process.poll() is not None for process in launched.processes)
    assert not list(Path("/dev/shm").glob(f"patchgrad-{os.getpid()}-*"))
