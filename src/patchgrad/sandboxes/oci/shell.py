"""Talking to processes in a container over one attached socket: a persistent bash, and single programs with a report.

An exec's socket carries frames, `[stream, 0, 0, 0, length as 4 bytes]` and that many bytes, streams 1 and 2 being output and errors. Here
stream 1 is all that a program says, and stream 2, to which no path in the container leads, is its report. The two may overtake each
other, so the end of a command is marked in both.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patchgrad.contracts import Result
from patchgrad.errors import SandboxFault
from patchgrad.sandboxes.linux import shell_state
from patchgrad.sandboxes.linux.children import REPORT_CAP, Output
from patchgrad.sandboxes.linux.shell_state import MOST_TOLD, ShellState

if TYPE_CHECKING:
    from docker.models.containers import Container

_LOOP = r"""
cd -- "$1" 2>/dev/null || cd /testbed
__script=$3; set --
{ QUESTION builtin printf '%s\0%s\0%s\0' "$__mark-" 0 "$PWD"; } >&3
{ builtin eval "$__script"; } >/dev/null 2>&1
while IFS= read -r __size; do
IFS= read -r -N "$__size" __command
eval "$__command" 3>&- </dev/null
__code=$?
builtin printf '%s' "$__mark"
{ QUESTION builtin printf '%s\0%s\0%s\0' "$__mark" "$__code" "$PWD"; } >&3 2>/dev/null
done
""".replace("QUESTION", shell_state.ASK)
PLUGIN = "/opt/patchgrad"  # where an image gets the grader's plugin
_PATH = f'export PYTHONPATH="{PLUGIN}${{PYTHONPATH:+:$PYTHONPATH}}"'
_START = f'{_PATH}; exec 3>&2 2>&1; read -r -N 1; exec "$@" </dev/null'
_FED = f'{_PATH}; exec 3>&2 2>&1; size=$1; shift; head -c "$size" | "$@"'
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PAGER": "cat", "GIT_PAGER": "cat"}


class Stream:
    """One exec of a container, attached."""

    def __init__(self, container: Container, argv: Sequence[str], env: Mapping[str, str]) -> None:
        client = container.client
        if client is None:
            raise SandboxFault("the container has no engine that runs it")
        self._api = client.api
        environment = {**ENVIRONMENT, **env}
        made = self._api.exec_create(container.id, list(argv), stdin=True, environment=environment, workdir="/testbed")
        self.id: str = made["Id"]
        self._attached: Any = self._api.exec_start(self.id, socket=True)
        self._socket: Any = getattr(self._attached, "_sock", self._attached)  # a socket, or what docker-py wraps one in
        self._data = b""

    def send(self, data: bytes) -> None:
        """Write to the program's input."""
        self._socket.settimeout(60.0)
        self._socket.sendall(data)

    def frames(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        """What arrives until the program ends; raises `TimeoutError` at the deadline, a moment of `time.monotonic`."""
        while True:
            while len(self._data) >= 8:
                stream, size = self._data[0], struct.unpack(">I", self._data[4:8])[0]
                if len(self._data) < 8 + size:
                    break
                part, self._data = self._data[8 : 8 + size], self._data[8 + size :]
                yield stream, part
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            received = self._socket.recv(1 << 18)
            if not received:
                return
            self._data += received

    def exit_code(self) -> int:
        """How the program ended."""
        for _ in range(200):
            code = self._api.exec_inspect(self.id)["ExitCode"]
            if code is not None:
                return int(code)
            time.sleep(0.01)
        raise SandboxFault("the engine does not say how a program ended")

    def close(self) -> None:
        """Ends the connection; what runs behind it may go on."""
        self._socket.close()
        if (response := getattr(self._attached, "_response", None)) is not None:  # docker-py keeps it open for the socket's sake
            response.close()


def once(
    container: Container, argv: Sequence[str], env: Mapping[str, str], stdin: bytes, seconds: float, cap: int, most: int = REPORT_CAP
) -> Result:
    """A fresh process in `/testbed`; past `seconds` of wall time the result says so, and the caller ends what is left.

    Kept are `cap` bytes of its output and the first `most` of its report.

    It waits for its input, or for a byte in its place: of one that ends before Podman has attached, what it said is lost, and no error
    tells (1 of 1,000 `pwd` on a busy machine).
    """
    script = ["bash", "-c", _FED, "bash", str(len(stdin))] if stdin else ["bash", "-c", _START, "bash"]
    started, output, report = time.monotonic(), Output(cap), bytearray()
    stream = Stream(container, [*script, *argv], env)
    state, code = "ok", None
    try:
        stream.send(stdin or b"\n")
        for kind, part in stream.frames(started + seconds):
            if kind == 2:
                report += part[: max(0, most - len(report))]
            else:
                output.add(part)
        code = stream.exit_code()
    except TimeoutError:
        state = "timeout"
    finally:
        stream.close()
    text, cut = output.take()
    return Result(text.decode(errors="replace"), code, state, cut, "/testbed", time.monotonic() - started, report=bytes(report))  # type: ignore[arg-type]


class Shell:
    """The agent's bash: variables and folder live from command to command, until it ends or is ended."""

    def __init__(self, container: Container, directory: str, limits: str, script: str = "") -> None:
        self.mark = secrets.token_hex(16)
        argv = [
            "bash",
            "--norc",
            "--noprofile",
            "-c",
            f'{_PATH}\nexec 3>&2 2>&1\n{limits}\n__mark="$2"\n{_LOOP}',
            "bash",
            directory,
            self.mark,
            script,
        ]
        self._stream = Stream(container, argv, {})
        self.directory, self.script = directory, script
        self._fresh: ShellState | None = None

    def run(self, command: str, seconds: float, cap: int) -> Result:
        """One command; `timeout` and `died` leave a shell that is good for nothing more."""
        data = command.encode(errors="surrogateescape").replace(b"\0", b"")
        text = data.decode(errors="replace").encode()  # bash counts characters, so there may be none that are not whole
        started, output, said, last = time.monotonic(), Output(cap), bytearray(), b""
        state: str = "died"
        code = None
        try:
            self._stream.send(b"%d\n%s" % (len(text.decode()), text))
            for kind, part in self._stream.frames(started + seconds):
                if kind == 2:
                    said += part
                    del said[:-MOST_TOLD]
                else:
                    output.add(part)
                    last = (last + part)[-4096:]
                if self._begun(said) and self.mark.encode() in last and (code := self._hear(said)) is not None:
                    state = "ok"
                    break
        except TimeoutError:
            state = "timeout"
        except OSError:
            state = "died"
        shown, cut = output.take()
        seconds, words = time.monotonic() - started, shown.decode(errors="replace").replace(self.mark, "")
        return Result(words, code, state, cut, self.directory, seconds)  # type: ignore[arg-type]

    def _begun(self, said: bytearray) -> bool:
        """Has it told what it began with?"""
        if self._fresh is None and (told := shell_state.answer(bytes(said), f"{self.mark}-".encode())) is not None:
            self._fresh = ShellState.read(told[2:])
        return self._fresh is not None

    def _hear(self, said: bytearray) -> int | None:
        """Takes note of the answer to a command, and gives its exit code; `None` while it is not all there."""
        told = shell_state.answer(bytes(said), self.mark.encode())
        if told is None or self._fresh is None:
            return None
        code, folder, *sections = told
        self.directory = folder.decode(errors="surrogateescape")
        self.script = ShellState.read(sections).since(self._fresh) if sections else self.script
        return int(code)

    def close(self) -> None:
        self._stream.close()
