"""How training loads torch."""

from __future__ import annotations

import os
from contextlib import suppress


def load_torch() -> None:
    """With helper threads that sleep when they have nothing to add up, which OpenMP asks the environment for when it is loaded.

    Else they turn for a while, on cores that the trainer's workers want: a step of the laptop's warm-up took 1.07 times as long.
    """
    told = "OMP_WAIT_POLICY" in os.environ
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with suppress(ModuleNotFoundError):  # which whoever needs it tells in better words
        import torch  # noqa: F401
    if not told:
        del os.environ["OMP_WAIT_POLICY"]  # what is started from here, such as vLLM, decides for itself
