"""One thread that answers the requests of some sessions together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from patchgrad.errors import PolicyFault, ran_out
from patchgrad.policies.embedded.draws import Drawn, Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.values import Action

GATHER = 0.001  # seconds for which an idle thread lets requests come together


class Promises:
    """The futures of the requests that are being answered."""

    def __init__(self) -> None:
        self._futures: dict[int, Future[Action]] = {}  # by identity of the request

    def make(self, request: Request, future: Future[Action]) -> None:
        """From now on somebody works on it."""
        self._futures[id(request)] = future

    def keep(self, request: Request, action: Action) -> None:
        """This is its answer."""
        self._futures.pop(id(request)).set_result(action)

    def fail(self, error: Exception) -> None:
        """None of them has an answer. Memory that ran out stays what it is: another attempt would find as little."""
        for future in self._futures.values():
            future.set_exception(error if ran_out(error) else PolicyFault(f"the embedded policy broke: {type(error).__name__}: {error}"))
        self._futures.clear()


class Lane:
    """A sampler and its thread, whose products are shared by so many `threads` of torch.

    Requests join and leave the running batch between two tokens; `action` makes turns of what it draws. A pause lets turns under way end,
    or, where they are `broken_into`, holds them between two tokens.
    """

    def __init__(self, sampler: Sampler, action: Callable[[Drawn], Action], threads: int = 1, broken_into: bool = False) -> None:
        self._sampler, self._action, self._broken_into = sampler, action, broken_into
        self._thread = ThreadPoolExecutor(1, "policy", initializer=torch.set_num_threads, initargs=(threads,))
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Request, Future[Action]]] = deque()
        self._released: list[str] = []
        self._promised = Promises()
        self._running, self._paused = False, 0

    def ask(self, request: Request) -> Future[Action]:
        """Draws one turn; the future may raise `PolicyFault`."""
        future: Future[Action] = Future()
        with self._lock:
            self._waiting.append((request, future))
            self._start()
        return future

    def release(self, session: str) -> None:
        """Forgets a session's cache; a session still acting is forgotten when it ends."""
        with self._lock:
            self._released.append(session)

    def pause(self) -> Future[None]:
        """Lets nobody join; the future is done when nobody acts, or acts on."""
        with self._lock:
            self._paused += 1
        return self._thread.submit(lambda: None)

    def renew(self, version: int) -> None:
        """The weights are others now, which have this version. Only while paused."""
        self._sampler.renew(version)

    def close(self) -> None:
        """The thread ends when nobody acts any more."""
        self._thread.shutdown(wait=False)

    def go_on(self) -> None:
        """Takes back one `pause`."""
        with self._lock:
            self._paused -= 1
            self._start()

    def _start(self) -> None:
        """Called with the lock held."""
        if (self._waiting or self._sampler.busy) and not self._running and not self._paused:
            self._running = True
            self._thread.submit(self._answer)

    def _answer(self) -> None:
        """Runs on the thread until nothing lives and nothing may join, or turns are held."""
        self._gather()
        with torch.inference_mode():
            while True:
                try:
                    self._sampler.admit(self._joining())
                    if self._sampler.busy:
                        for drawn in self._sampler.step():
                            self._promised.keep(drawn.request, self._action(drawn))
                except Exception as error:  # whatever broke, each waiting session must hear of it
                    self._sampler.reset()
                    self._promised.fail(error)
                with self._lock:
                    held = self._paused and (self._broken_into or not self._sampler.busy)
                    if held or not (self._sampler.busy or self._waiting):
                        self._running = False
                        return

    def _gather(self) -> None:
        count = -1
        while count != len(self._waiting):
            count = len(self._waiting)
            time.sleep(GATHER)

    def _joining(self) -> list[Request]:
        acting = self._sampler.acting()
        joining: list[Request] = []
        with self._lock:
            for session in [name for name in self._released if name not in acting]:
                self._sampler.forget(session)
            self._released = [name for name in self._released if name in acting]
            room = 0 if self._paused else self._sampler.room
            for _ in range(len(self._waiting) if room else 0):
                request, future = self._waiting.popleft()
                if len(joining) == room or request.session in acting:  # a session's second request waits for its first
                    self._waiting.append((request, future))
                elif future.set_running_or_notify_cancel():
                    acting.add(request.session)
                    self._promised.make(request, future)
                    joining.append(request)
        return joining
