"""One thread for what has to come out the same however many cores a machine has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums and products are not split over cores in here, so that they add up in one order.

    torch's number of threads is the process's own: not for two threads at once.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
