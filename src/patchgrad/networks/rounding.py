"""What is rounded: products in `bfloat16` where the processor is made for them, and roots, the same on every processor."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Literal

from torch import Tensor

Precision = Literal["float32", "bfloat16"]
TOLD = Path("/proc/cpuinfo")
INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16"})
BOUNDS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # by which a user keeps oneDNN from instructions that there are
WITHIN = re.compile(r"DEFAULT|ALL|AVX512_CORE_(BF16|FP16|AMX.*)|AVX10.*", re.IGNORECASE)


@cache
def multiplies_bfloat16(cpuinfo: Path = TOLD) -> bool:
    """Whether the processor has instructions for it: products are 2.3 times as fast as in `float32` then, and else three times slower.

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
