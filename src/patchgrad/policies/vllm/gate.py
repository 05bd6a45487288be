"""Actions run beside each other, and weights change when none runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets many act or one load. `alone` is held by who may not be disturbed for a moment."""

    def __init__(self) -> None:
        self.alone = threading.Condition()
        self._acting, self._loading = 0, False

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Waits until nobody loads."""
        with self.alone:
            self.alone.wait_for(lambda: not self._loading)
            self._acting += 1
        try:
            yield
        finally:
            with self.alone:
                self._acting -= 1
                self.alone.notify_all()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Lets nobody begin, and waits until nobody acts."""
        try:
            with self.alone:
                self._loading = True
                self.alone.wait_for(lambda: not self._acting)
            yield
        finally:
            with self.alone:
                self._loading = False
                self.alone.notify_all()
