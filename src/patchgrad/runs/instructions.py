"""With which of the processor's instructions a run computes: all that it has, or those that every x86-64 processor has.

Libraries choose by the processor, and a sum in another order is rounded otherwise. Most choose when they are loaded, and the C library when
the process starts: so what they are told stands in the environment before Python does.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping

from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import Machine

COMMON: Mapping[str, str] = {
    "ATEN_CPU_CAPABILITY": "default",  # torch
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",  # the only mode of MKL's that processors of other makers have
    "NUMBA_CPU_NAME": "x86-64-v2",
    "NUMBA_CPU_FEATURES": "",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX AVX2 F16C FMA3 FMA4 XOP AVX512F AVX512CD AVX512_SKX",
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",  # exp and log with and without fused products differ
}
"""What each library is told, to leave alone what is not in x86-64-v2, the instructions of 2009."""
HERE = platform.machine()


def begin(machine: Machine, processor: str = HERE) -> None:
    """Starts this process again with `COMMON` where a recipe asks for it and the environment does not have it; returns where it has.

    Raises `ConfigError` on a processor that is no x86-64.
    """
    if machine.instructions == "all" or not _missing():
        return
    _possible(processor)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | COMMON)


def begun(machine: Machine, processor: str = HERE) -> None:
    """Raises `ConfigError` where a recipe asks for instructions that all processors have, and this process was started without `COMMON`."""
    if machine.instructions == "common" and (missing := _missing()):
        _possible(processor)
        told = " ".join(f"{name}={value!r}" for name, value in missing.items())
        raise ConfigError(f'machine.instructions = "common" is told before Python starts: use `patchgrad train`, or begin with env {told}')


def _missing() -> dict[str, str]:
    return {name: value for name, value in COMMON.items() if os.environ.get(name) != value}


def _possible(processor: str) -> None:
    if processor != "x86_64":
        raise ConfigError(f'machine.instructions = "common" is for x86-64 processors, and this is {processor}: set it to "all".')
