"""The parent of all that one sandbox starts: it stays outside, so that it can end what does not want to end.

As a subreaper it inherits every process that leaves its group or its parent, so all of an episode are always among its descendants. It
answers one question at a time; when its trainer is gone it ends everything and itself. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from patchgrad.sandboxes.landlock.confine import confine, ruleset
from patchgrad.sandboxes.linux import shell, shell_state, system, tree
from patchgrad.sandboxes.linux.children import OUT_OF_MEMORY, OUT_OF_MEMORY_BEFORE, Child, holding, pipe
from patchgrad.sandboxes.linux.clock import Clock, look, spent
from patchgrad.sandboxes.linux.frames import Frame, Header, Reader, pack
from patchgrad.sandboxes.linux.leftovers import command_of
from patchgrad.sandboxes.linux.shell_state import MOST_TOLD, ShellState, answer

_SUBREAPER = 36
_TICK = 0.1
_HEARS = 5.0
_HIGH = 64
_LOOP = """
cd -- "$1" 2>/dev/null || cd -- "$2"; __mark=$3; __script=$4; shift 4
{ QUESTION builtin printf '%s\\0%s\\0%s\\0' "$__mark" 0 "$PWD"; } >&3
{ builtin eval "$__script"; } >/dev/null 2>&1
while IFS= builtin read -r -d '' __command <&4; do
builtin eval "$__command" 3>&- 4<&- </dev/null
__code=$?
{ QUESTION builtin printf '%s\\0%s\\0%s\\0' "$__mark" "$__code" "$PWD"; } >&3 2>/dev/null
done
""".replace("QUESTION", shell_state.ASK)


class Ended(Exception):
    """The trainer is gone."""


class Operation:
    """What is waited for: an answer of the shell, or the end of a process."""

    def __init__(self, child: Child, header: Header) -> None:
        self.child, self.clock, self.before = child, Clock(), spent(child.pid)
        self.seconds, self.deadline = header["timeout"], self.clock.start + header["wall"]

    def answer(self, state: str, code: int | None, stands: Header, cpu: float) -> Frame:
        text, cut, report = self.child.take()
        header: Header = {"state": state, "code": code, "cut": cut, **stands, "text": len(text), "cpu": max(0.0, cpu)}
        return {**header, "seconds": time.monotonic() - self.clock.start}, text + report


class Keeper:
    """`serve` answers `run`, `exec` and `end` until the socket closes."""

    def __init__(self, control: socket.socket, settings: Header) -> None:
        self._control, self._limits = control, settings["limits"]
        self._home = self._directory = f"{settings['home']}/testbed"
        self._files, self._alone = settings["home"], settings["user"] is not None
        self._environment: dict[str, str] = settings["environment"]
        self._rules = ruleset(settings["readable"], settings["writable"])
        self._shell: Child | None = None
        self._commands = 0
        self._mark = b""
        self._fresh = ShellState()  # what a shell begins with
        self._script = ""  # what the agent has made of its own
        self._exits: dict[int, tuple[int, float]] = {}
        self._ended = b""  # what the next command is told of an end that came before it

    def serve(self) -> None:
        operations = {"run": self._run, "exec": self._exec, "end": self._end, "write": self._write}
        frames = Reader()
        try:
            while data := self._asked():
                for header, body in frames.feed(data):
                    self._control.sendall(pack(*operations[header["op"]](header, body)))
        except (Ended, ConnectionError):
            pass
        finally:
            self._end_all()

    def _asked(self) -> bytes:
        """What the trainer says next. Until then those whom a command has left behind are watched, as long as there are any."""
        while not select.select([self._control], [], [], _TICK)[0]:
            self._reap()
            found = descendants()
            if look(found).hold(self._limits["memory"]):
                self._ended = OUT_OF_MEMORY_BEFORE
                self._end_all()
                self._close_shell()
                self._script = ""
            elif not {*found} - {self._shell.pid if self._shell else 0}:
                break
        return self._control.recv(1 << 16)

    def _run(self, header: Header, body: bytes) -> Frame:
        if self._shell is None:
            self._shell = self._open_shell()
        self._shell.say(self._ended)
        self._ended = b""
        operation = Operation(self._shell, header)
        del self._shell.report[:]
        state = "died"
        if _feed(self._commands, body.replace(b"\0", b"") + b"\0"):
            state = self._wait(operation, self._answered)
        if state == "ok":
            code = self._hear()
            return operation.answer("ok", code, self._stands(), spent(self._shell.pid) - operation.before)
        ended, cpu = self._exit_of(self._shell.pid) if state == "died" else (None, operation.clock.cpu)
        self._end_all()
        del self._shell.report[:]
        self._script = ""
        told = operation.answer(state, ended, self._stands(), cpu)
        self._close_shell()
        return told

    def _answered(self) -> bool:
        return self._said() is not None

    def _said(self) -> list[bytes] | None:
        if self._shell is None:
            return None
        del self._shell.report[:-MOST_TOLD]
        return answer(bytes(self._shell.report), self._mark)

    def _hear(self) -> int:
        """Takes note of what the shell has said, and gives the exit code in it."""
        code, folder, *sections = self._said() or (b"0", os.fsencode(self._directory))
        if self._shell is not None:
            del self._shell.report[:]
        self._directory, self._script = os.fsdecode(folder), ShellState.read(sections).since(self._fresh) if sections else self._script
        return int(code)

    def _stands(self) -> Header:
        """Where the shell is and what was made of it, and who is there beside it."""
        others = sorted({*descendants()} - {self._shell.pid if self._shell else 0})
        return {"directory": self._directory, "shell": self._script, "processes": [command_of(pid) for pid in others]}

    def _open_shell(self) -> Child:
        self._mark = os.urandom(16).hex().encode()
        argv = ["bash", "--norc", "--noprofile", "-c", _LOOP, "bash", self._directory, self._home, self._mark.decode(), self._script]
        reading, self._commands = pipe()
        os.set_blocking(reading, True)
        try:
            child = self._shell = self._start(argv, self._environment, {0: os.open(os.devnull, os.O_RDONLY), 4: reading})
        finally:
            os.close(reading)
        ends = time.monotonic() + _HEARS
        while (
            (said := self._said()) is None
            and time.monotonic() < ends
            and select.select([*child.pipes], [], [], max(0.0, ends - time.monotonic()))[0]
        ):
            for descriptor in child.pipes:
                child.read(descriptor)
        self._fresh = ShellState.read(said[2:]) if said else ShellState()
        return child

    def _close_shell(self) -> None:
        if self._shell is not None:
            self._shell.close()
            os.close(self._commands)
            self._shell = None

    def _exec(self, header: Header, body: bytes) -> Frame:
        child = self._start(header["argv"], {**self._environment, **header["env"]}, {0: holding(body)})
        operation = Operation(child, header)
        state = self._wait(operation, lambda: False)
        if state == "died":
            code, cpu = self._exit_of(child.pid)
            told = operation.answer("ok", code, self._stands(), cpu)
        else:  # ends every process, the shell included
            self._end_all()
            self._close_shell()
            self._script = ""
            told = operation.answer(state, None, self._stands(), operation.clock.cpu)
        child.close()
        return told

    def _end(self, header: Header, body: bytes) -> Frame:
        self._end_all()
        self._close_shell()
        self._directory, self._script, self._ended = header["directory"], header["shell"], b""
        return {}, b""

    def _write(self, header: Header, body: bytes) -> Frame:
        try:
            tree.write(self._files, header["path"], body)
        except OSError as error:
            return {"errno": error.errno, "error": error.strerror, "path": header["path"]}, b""
        return {}, b""

    # --- processes ---

    def _start(self, argv: Sequence[str], environment: Mapping[str, str], given: Mapping[int, int]) -> Child:
        (output, said), (report, written) = pipe(), pipe()
        descriptors = {**given, 1: said, 2: said, 3: written}
        child = os.fork()
        if child == 0:
            self._become(argv, environment, descriptors)
        for descriptor in {given[0], said, written}:
            os.close(descriptor)
        return Child(child, output, report, self._limits["output"])

    def _become(self, argv: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[int, int]) -> None:
        """In the child: gives it its descriptors and no others, locks it in, and starts the program. Does not return."""
        code = 126
        try:
            os.setsid()
            rules = fcntl.fcntl(self._rules, fcntl.F_DUPFD, _HIGH)
            high = {theirs: fcntl.fcntl(ours, fcntl.F_DUPFD, _HIGH) for theirs, ours in descriptors.items()}
            for theirs, ours in high.items():
                os.dup2(ours, theirs)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.chdir(self._home)
            limits = shell.bounds(self._limits["processes"], self._limits["memory"], self._limits["disk"])
            if not self._alone:  # it counts all processes of the user, the trainer's threads too: the keeper looks instead
                del limits[resource.RLIMIT_NPROC]
            confine(rules, limits)
            os.closerange(max(descriptors) + 1, 1 << 20)
            code = 127
            os.execvpe(argv[0], list(argv), environment)
        except BaseException as error:
            os.write(2, f"{argv[0]}: {error}\n".encode())
        finally:
            os._exit(code)

    def _wait(self, operation: Operation, finished: Callable[[], bool]) -> str:
        """`ok` once it is finished, `died` when its process has ended before; why it has to be ended where it does not."""
        child, control = operation.child, self._control.fileno()
        with selectors.DefaultSelector() as ready:
            for descriptor in (child.handle, control, *child.pipes):
                ready.register(descriptor, selectors.EVENT_READ)
            while True:
                ended = False
                for key, _ in ready.select(_TICK):
                    ended = ended or key.fd == child.handle
                    if key.fd == control:
                        if not self._control.recv(1, socket.MSG_PEEK):
                            raise Ended
                        ready.unregister(control)  # asked too early: answered in its turn
                    elif key.fd in child.pipes and not child.read(key.fd):
                        ready.unregister(key.fd)
                if finished():
                    return "ok"
                if ended:
                    return "died"
                if state := self._check(operation):
                    return state

    def _check(self, operation: Operation) -> str:
        self._reap()
        found = descendants()
        seen = look(found)
        if operation.clock.tick(seen) > operation.seconds or time.monotonic() > operation.deadline:
            return "timeout"
        if seen.hold(self._limits["memory"]):
            operation.child.say(OUT_OF_MEMORY)
            return "out of memory"
        if len(found) > self._limits["processes"] + 8:
            operation.child.say(b"\nKilled: this sandbox had more processes than its limit.\n")
            self._end_all()
        return ""

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.wait3(os.WNOHANG))[0]:
                self._exits[found[0]] = os.waitstatus_to_exitcode(found[1]), found[2].ru_utime + found[2].ru_stime

    def _exit_of(self, pid: int) -> tuple[int, float]:
        self._reap()
        code, seconds = self._exits.pop(pid, (0, 0.0))
        return code if code >= 0 else 128 - code, seconds

    def _end_all(self) -> None:
        """Stops all first, so that nobody starts another one meanwhile, and looks again until there is none."""
        deadline = time.monotonic() + 10.0
        while (found := descendants()) and time.monotonic() < deadline:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            self._reap()
            time.sleep(0.002)


def descendants() -> list[int]:
    """Everyone below this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    children.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
            except OSError:
                continue
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _feed(descriptor: int, data: bytes) -> bool:
    """Writes all of it; false when the reader is gone."""
    os.set_blocking(descriptor, True)
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError:
        return False
    return True


def main(settings: Header) -> None:
    """`settings`: the control socket's number, the user to become, limits, the sandbox's folder, variables, paths to read and to write."""
    if settings["user"] is not None:
        os.setgroups([])
        os.setresgid(settings["user"], settings["user"], settings["user"])
        os.setresuid(settings["user"], settings["user"], settings["user"])
        system.dumpable(True)
    for number in (signal.SIGINT, signal.SIGHUP):  # for the trainer to hear, not for us
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    control = socket.socket(fileno=settings["control"])
    os.set_inheritable(settings["control"], False)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    os.umask(0o022)
    try:
        keeper = Keeper(control, settings)
    except OSError as error:
        control.sendall(pack({"refused": str(error)}))
        return
    control.sendall(pack({}))
    keeper.serve()
