"""PID 1 of a cell: starts the agent's shell and other processes, serves warm pytest, reports, and cleans up between episodes.

It runs inside the sandbox but is not within reach: PID 1 gets no signal from its own namespace, it is not dumpable, and the seccomp
filter keeps other processes from its limits. It trusts nothing that arrives on a FIFO: anyone inside can write there, and gets a
fork of pytest for a process of their own or a wrong answer for their own command, nothing else.

A fork of pytest has a copy of its memory. So what is secret never enters it: inputs of processes are files that it passes on, commands
lie in files that the shell reads, and a cell serves one episode.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable
from functools import partial

from patchgrad.sandboxes.bwrap.warm import Cold, Pytest
from patchgrad.sandboxes.linux import shell, system
from patchgrad.sandboxes.linux.children import OUT_OF_MEMORY, OUT_OF_MEMORY_BEFORE, Child, drain, pipe, spawn
from patchgrad.sandboxes.linux.clock import Clock, look, spent
from patchgrad.sandboxes.linux.frames import Header, Reader, pack
from patchgrad.sandboxes.linux.leftovers import command_of
from patchgrad.sandboxes.linux.shell_state import MOST_TOLD, ShellState, answer, beginning

_TICK = 0.1
_REQUESTS = 16
_FILES = 8
_HEARS = 5.0
_STARTER = 'cd /testbed && exec "$@"'


class Operation:
    """What the nest waits for: a turn of the shell, or (turn 0) the end of a process."""

    def __init__(self, child: Child, seconds: float, wall: float, turn: int = 0) -> None:
        self.child, self.turn = child, turn
        self.clock = Clock()
        self.seconds, self.deadline = seconds, self.clock.start + wall
        self.spent = spent(child.pid) if turn else 0.0


class Warden:
    """One cell's event loop. At most one operation is under way at a time."""

    def __init__(self, control: socket.socket, warm: Pytest, environment: dict[str, str]) -> None:
        self._control = control
        self._frames = Reader()
        self._held: list[int] = []
        self._selector = selectors.DefaultSelector()
        self._pytest = warm
        self._limits: Header = {}
        self._directory = "/testbed"
        self._environment = environment
        self._shell: Child | None = None
        self._turn = 0
        self._fresh: ShellState | None = None  # what a shell begins with, once it was asked
        self._script = ""  # what the agent has made of its own
        self._plain = True  # does a word call there what it calls in a fresh shell?
        self._others: list[str] = []  # the processes beside it
        self._settled = False  # is the command one that changes neither?
        self._watched = False  # may there be somebody beside a shell that waits?
        self._ended = b""  # what the next command is told of an end that came before it
        self._operation: Operation | None = None
        self._callers: dict[int, Caller] = {}
        self._exits: dict[int, tuple[int, float]] = {}
        self._status = b""
        self._fifos = {name: os.open(f"{shell.LINE}/{name}", os.O_RDWR | os.O_NONBLOCK) for name in ("go", "status", "request")}
        self.watch(control.fileno(), self._on_control)
        self.watch(self._fifos["status"], self._on_status)
        self.watch(self._fifos["request"], self._on_request)
        self._start_ahead()

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def ignore(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor)

    def serve(self) -> None:
        """Until the nest goes away; the kernel then ends everything in this namespace."""
        checked = 0.0
        while True:
            wait = _TICK if self._operation or self._watched else 1.0 if self._shell or self._callers else None
            for key, _ in self._selector.select(wait):
                if self._selector.get_map().get(key.fd) is key:  # an earlier event of this round may have closed it
                    key.data()
            now = time.monotonic()
            if (self._operation or self._watched) and now - checked > _TICK:
                checked = now
                self._check(now)
            elif self._operation is None:
                self._reap()

    def _check(self, now: float) -> None:
        self._reap()
        operation = self._operation
        if operation is None and not self._beside():
            self._watched = False
            return
        seen = look()
        if operation and (operation.clock.tick(seen) > operation.seconds or now > operation.deadline):
            self._end("timeout")
        elif seen.hold(self._limits["memory"]):
            if operation:
                operation.child.say(OUT_OF_MEMORY)
            else:
                self._ended = OUT_OF_MEMORY_BEFORE
            self._end("out of memory")

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.wait3(os.WNOHANG))[0]:
                self._exits[found[0]] = os.waitstatus_to_exitcode(found[1]), found[2].ru_utime + found[2].ru_stime

    def exit_of(self, pid: int) -> tuple[int, float]:
        """How a child ended, in the shell's way (128 + n for signal n), and its CPU seconds."""
        self._reap()
        code, seconds = self._exits.pop(pid, (0, 0.0))
        return code if code >= 0 else 128 - code, seconds

    # --- what the nest asks ---

    def _on_control(self) -> None:
        data, held = system.receive(self._control, 1 << 16, _FILES)
        self._held += held
        if not data:
            os._exit(0)
        for header, _ in self._frames.feed(data):
            if self._operation is not None:
                self._end("died")  # whoever asked has gone, and the nest resets next
            operate = {"open": self._open, "run": self._run, "exec": self._exec, "reset": self._reset}[header["op"]]
            try:
                operate(header)
            except (OSError, ValueError) as error:  # an image without a shell, words that no program can be given, no room for a process
                told = str(error).encode(errors="backslashreplace")
                facts: Header = {"state": "died", "code": None, "cut": False, "text": len(told), **self._stands()}
                self._reply({**facts, "seconds": 0.0, "cpu": 0.0}, told)

    def _open(self, header: Header) -> None:
        self._limits, self._directory, self._script = header["limits"], header["directory"], header["shell"]
        self._plain, self._ended = not self._script, b""
        with contextlib.suppress(OSError):
            os.mkdir("/tmp/home")
        if self._shell is not None:
            self._introduce(self._shell)
        self._reply({})

    def _start_ahead(self) -> None:
        """Starts the next episode's shell before anybody asks for it."""
        reader, self._ahead = os.pipe()
        argv = ["bash", "--norc", "--noprofile", "-c", shell.loop(), "bash"]
        self._shell = None
        try:
            self._shell = self._with_pipes(lambda ends: spawn(argv, self._environment, ends), reader, False)
        except FileNotFoundError:  # an image without a shell, which the first command is told of
            os.close(self._ahead)

    def _introduce(self, waiting: Child) -> None:
        """Tells it for whom it is and waits until it has heard: before that, nobody else lives here who could come between."""
        waiting.bound(self._limits["output"])
        with contextlib.suppress(BrokenPipeError):
            os.write(self._ahead, os.fsencode(f"{self._ulimit()}\0{self._directory}\0{self._script}\0"))
        os.close(self._ahead)
        told, ends = b"", time.monotonic() + _HEARS
        while (found := answer(told, b"0")) is None and select.select([self._fifos["status"]], [], [], ends - time.monotonic())[0]:
            parts = [told]
            drain(self._fifos["status"], parts.append)
            told = b"".join(parts)
        if found is None:
            self._kill()
        elif self._script:
            self._fresh = ShellState.read(found[2:])

    def _start_shell(self) -> Child:
        argv = ["bash", "--norc", "--noprofile", "-c", shell.loop(self._ulimit()), "bash", self._directory, ""]
        self._script, self._plain = "", True
        return self._start(argv, self._environment, os.open(os.devnull, os.O_RDONLY), False)

    def _run(self, header: Header) -> None:
        if self._shell is None:
            self._shell = self._start_shell()
        self._shell.say(self._ended)
        self._ended = b""
        self._turn += 1
        self._settled = bool(header["settled"] and self._plain and not self._others)
        self._operation = Operation(self._shell, header["timeout"], header["wall"], self._turn)
        for name in ("go", "status"):  # a waiting shell has left nothing in either, so what is there was not said by it
            drain(self._fifos[name], lambda data: None)
        self._status = b""
        with contextlib.suppress(BlockingIOError):
            os.write(self._fifos["go"], b"%d%s\n" % (self._turn, b"" if self._settled else b"?" if self._fresh else b"??"))

    def _exec(self, header: Header) -> None:
        self._settled = False
        stdin = self._held.pop(0) if header.get("stdin") else os.open(os.devnull, os.O_RDONLY)
        try:
            child = self._started(header, stdin)
        finally:
            os.close(stdin)
        self._operation = Operation(child, header["timeout"], header["wall"])

    def _started(self, header: Header, stdin: int) -> Child:
        environment = {**self._environment, **header["env"]}
        argv = header["argv"]
        with contextlib.suppress(Cold):
            return self._start_warm(argv, environment, os.dup(stdin))
        starter = ["bash", "--norc", "--noprofile", "-c", f"{self._ulimit()}\n{_STARTER}", "bash", *argv]
        return self._start(starter, environment, os.dup(stdin), True)

    def _ulimit(self) -> str:
        return shell.limits(self._limits["processes"], self._limits["memory"], self._limits["disk"], self._limits["capped"])

    def _start(self, argv: list[str], environment: dict[str, str], stdin: int, report: bool) -> Child:
        return self._with_pipes(lambda ends: spawn(argv, environment, ends), stdin, report)

    def _start_warm(self, argv: list[str], environment: dict[str, str], stdin: int) -> Child:
        bounds = shell.bounds(self._limits["processes"], self._limits["memory"], self._limits["disk"], self._limits["capped"])
        return self._with_pipes(lambda ends: self._pytest.fork(argv, environment, "/testbed", ends, bounds), stdin, True)

    def _with_pipes(self, start: Callable[[dict[int, int]], int], source: int, report: bool) -> Child:
        ends = [pipe() for _ in range(2 if report else 1)]
        given = {0: source, 1: ends[0][1], 2: ends[0][1]} | ({3: ends[1][1]} if report else {})
        try:
            pid = start(given)
        except BaseException:
            for reader, _ in ends:
                os.close(reader)
            raise
        finally:
            for descriptor in {*given.values()}:
                os.close(descriptor)
        child = Child(pid, ends[0][0], ends[1][0] if report else None, self._limits.get("output", 0))
        self.watch(child.handle, lambda: self._gone(child))
        for descriptor in child.pipes:
            self.watch(descriptor, partial(self._listen, child, descriptor))
        return child

    def _listen(self, child: Child, descriptor: int) -> None:
        if not child.read(descriptor):
            self.ignore(descriptor)

    def _reset(self, header: Header) -> None:
        self._kill()
        for name in ("go", "status", "request"):
            drain(self._fifos[name], lambda data: None)
        self._status = b""
        self._reply({})
        self._start_ahead()

    def _reply(self, header: Header, body: bytes = b"") -> None:
        self._control.sendall(pack(header, body))

    # --- how operations end ---

    def _on_status(self) -> None:
        parts = [self._status]
        drain(self._fifos["status"], parts.append)
        said, operation = b"".join(parts), self._operation
        if self._fresh is None and not self._settled:
            self._fresh = beginning(said)
        self._status = said[-MOST_TOLD:]
        found = answer(self._status, b"%d" % operation.turn) if operation and operation.turn else None
        if operation is None or found is None:
            return
        code, folder, *sections = found
        self._directory, self._status = os.fsdecode(folder), b""
        if sections:
            state, fresh = ShellState.read(sections), self._fresh or ShellState()
            self._script, self._plain = state.since(fresh), state.calls_as(fresh)
        self._finish("ok", int(code[:3]), spent(operation.child.pid) - operation.spent)

    def _gone(self, child: Child) -> None:
        code, seconds = self.exit_of(child.pid)
        operation = self._operation
        if operation is not None and operation.child is child:
            self._finish("died" if operation.turn else "ok", code, seconds - operation.spent)
        self._close(child)

    def _close(self, child: Child) -> None:
        for descriptor in (child.handle, *child.pipes):
            self.ignore(descriptor)
        child.close()
        if child is self._shell:
            self._shell, self._script = None, ""

    def _end(self, state: str) -> None:
        operation = self._operation
        self._kill()
        if operation is not None:
            self._finish(state, None, operation.clock.cpu)
            if not operation.turn:
                self._close(operation.child)
        elif self._shell is not None:
            self._close(self._shell)

    def _finish(self, state: str, code: int | None, cpu: float) -> None:
        operation, self._operation = self._operation, None
        if operation is None:
            return
        text, cut, report = operation.child.take()
        seconds = time.monotonic() - operation.clock.start
        header: Header = {"state": state, "code": code, "cut": cut, "text": len(text), **self._stands()}
        header |= {"seconds": seconds, "cpu": max(0.0, cpu)}
        self._watched = self._settled or bool(self._others)
        self._reply(header, text + report)

    def _stands(self) -> Header:
        """Where the shell is and what was made of it, and who is there beside it: a plain call of programs adds nobody to that."""
        if not self._settled:
            self._others = [command_of(pid) for pid in self._beside()]
        return {"directory": self._directory, "shell": self._script, "processes": self._others}

    def _beside(self) -> list[int]:
        """Who is there beside the shell."""
        return sorted({int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, self._shell.pid if self._shell else 1})

    def _kill(self) -> None:
        """Ends every process of the episode: as PID 1, `kill -1` reaches all but ourselves, under one lock of the task list."""
        for caller in list(self._callers.values()):
            caller.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            while True:
                os.kill(-1, signal.SIGKILL)
                os.waitpid(-1, 0)
                self._reap()
        self._exits.clear()

    # --- warm pytest ---

    def _on_request(self) -> None:
        words: list[bytes] = []
        drain(self._fifos["request"], lambda data: words.extend(data.split()))
        for word in words:
            if word.isdigit() and int(word[:9]) > 1:
                with contextlib.suppress(OSError):
                    self._serve(int(word[:9]))

    def _serve(self, pid: int) -> None:
        slot = pid % shell.SLOTS
        if slot in self._callers or len(self._callers) >= _REQUESTS or not self._limits:
            os.kill(pid, signal.SIGUSR1)
            return
        caller = self._callers[slot] = Caller(self, pid, slot)
        try:
            child = self._pytest.fork_for(pid, caller.handle)
        except (Cold, OSError, ValueError):
            caller.answer(b"cold\n")
        else:
            caller.follow(child)

    def release(self, slot: int) -> None:
        self._callers.pop(slot, None)


class Caller:
    """One request for pytest: the process that asked and, when there is one, the child that stands in for it."""

    def __init__(self, warden: Warden, pid: int, slot: int) -> None:
        self._warden, self._slot = warden, slot
        self.handle = os.pidfd_open(pid)
        self._reply = os.open(f"{shell.LINE}/reply/{slot}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        drain(self._reply, lambda data: None)
        self._child = self._pid = 0
        warden.watch(self.handle, self.close)

    def answer(self, line: bytes) -> None:
        """What is in the pipe stays there only while we keep it open, so that is until the caller is gone."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._reply, line)

    def follow(self, child: int) -> None:
        self._pid, self._child = child, os.pidfd_open(child)
        self._warden.watch(self._child, self._ended)

    def _ended(self) -> None:
        self._forget_child()
        self.answer(b"%d\n" % self._warden.exit_of(self._pid)[0])

    def _forget_child(self) -> None:
        self._warden.ignore(self._child)
        os.close(self._child)
        self._child = 0

    def close(self) -> None:
        """The caller is gone, and what ran for it goes too."""
        if self._child:
            signal.pidfd_send_signal(self._child, signal.SIGKILL)
            self._forget_child()
        self._warden.ignore(self.handle)
        os.close(self.handle)
        os.close(self._reply)
        self._warden.release(self._slot)
