"""What is rounded: products in `bfloat16` where they are faster on this processor, and roots, the same on every processor."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Precision = Literal["float32", "bfloat16"]
TOLD = Path("/proc/cpuinfo")
INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16"})
BOUNDS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # by which a user keeps oneDNN from instructions that there are
DECIDED = "PATCHGRAD_BFLOAT16"
"""In the environment: `1` where products are faster in `bfloat16` and `0` where not, as the process that began this one has found."""
WORTH, ROUNDS = 1.2, 9
"""So many times as fast products have to be, of so many that are timed."""
WITHIN = re.compile(r"DEFAULT|ALL|AVX512_CORE_(BF16|FP16|AMX.*)|AVX10.*", re.IGNORECASE)


@cache
def multiplies_bfloat16() -> bool:
    """Whether products in it are faster here than in `float32`: the processor has instructions for it, and they were seen to be.

    The instructions alone say little. Of two processors with `avx512_bf16` one was 2.3 times as fast with them, and the other half as fast.
    """
    if not instructed():
        return False
    told = os.environ.get(DECIDED)
    return told == "1" if told else gain() > WORTH


def decide(quick: bool) -> None:
    """From now on products are faster in `bfloat16`, or are not, here and in processes that begin from here."""
    os.environ[DECIDED] = str(int(quick))
    multiplies_bfloat16.cache_clear()


@contextmanager
def decided(quick: bool | None) -> Iterator[bool]:
    """In here, and in processes that begin in here, products are faster in `bfloat16` or are not: as told, or else as is found now.

    So a run that goes on rounds as it did, also where the two are about as fast.
    """
    before = os.environ.get(DECIDED)
    if quick is not None:
        decide(quick)
    found = multiplies_bfloat16()
    decide(found)
    try:
        yield found
    finally:
        multiplies_bfloat16.cache_clear()
        os.environ.pop(DECIDED, None)
        if before is not None:
            os.environ[DECIDED] = before


@cache
def instructed(cpuinfo: Path = TOLD) -> bool:
    """Whether the processor has instructions for products in `bfloat16`, without which they are three times slower than in `float32`.

    Told by Linux on x86; of others it is not known, and taken for no. So it is where oneDNN may not use them (`ONEDNN_MAX_CPU_ISA`).
    """
    if not all(WITHIN.fullmatch(os.environ.get(name, "DEFAULT")) for name in BOUNDS):
        return False
    try:
        told = cpuinfo.read_text()
    except OSError:
        return False
    flags = next((line for line in told.splitlines() if line.startswith("flags")), "")
    return not INSTRUCTIONS.isdisjoint(flags.split())


def gain() -> float:
    """How many times as fast a product is in `bfloat16` as in `float32`, on one thread.

    Seconds of the processor are counted and the least of some is taken, by turns, so that neighbours hardly matter.
    """
    shapes, threads = ((128, 576), (1536, 576)), torch.get_num_threads()
    exact, rounded = ([torch.ones(shape, dtype=kind) for shape in shapes] for kind in (torch.float32, torch.bfloat16))
    torch.set_num_threads(1)
    try:
        taken = [[_seconds(*operands) for operands in (exact, rounded)] for _ in range(ROUNDS)]
    finally:
        torch.set_num_threads(threads)
    slow, quick = (min(each) for each in zip(*taken, strict=True))
    return float(slow / quick)


def _seconds(rows: Tensor, matrix: Tensor) -> float:
    begun = time.thread_time()
    functional.linear(rows, matrix)
    return time.thread_time() - begun


def settled(choice: Precision | Literal["auto"], gpu: bool) -> Precision:
    """What `auto` comes to on this machine: `bfloat16` on a GPU, and on a CPU that multiplies it."""
    return worthwhile("bfloat16", "float32", gpu) if choice == "auto" else choice


def worthwhile(wanted: Precision, own: Precision, gpu: bool) -> Precision:
    """The precision that is `wanted` for a while, if that is no waste here, and else the `own`."""
    return wanted if gpu or multiplies_bfloat16() else own


def root(x: Tensor) -> Tensor:
    """Square roots of numbers that are not negative: `root([4, 0])` is `[2, 0]`.

    `torch.sqrt` asks MKL, whose last bit depends on the processor; the reciprocal of a root is torch's own.
    """
    return x.rsqrt().reciprocal_()
