"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes
import sys

MMAP_THRESHOLD, LARGE = -3, 1 << 18  # mallopt's number; what is at least so large is mapped by itself


def give_back() -> None:
    """From now on whatever large this process frees goes back to the system at once.

    glibc raises the size from which it does so to up to 32 MB as memory is freed, and what is smaller stays in heaps that fill with holes:
    in five trainings of small networks processes held 1.1 to 2.1 times as much as they do with this. It costs time, as memory that comes
    anew has to be cleared: their steps took 1.4 times as long in the middle (0.8 to 1.5) with blocks from a megabyte on; with these, from a
    quarter on, another 1.05 (1.03 to 1.10). Another C library keeps its ways.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(MMAP_THRESHOLD, LARGE)
