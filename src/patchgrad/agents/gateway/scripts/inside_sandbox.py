"""Runs a program inside a sandbox, where there is no network: a server on the loopback hands what it asks to whoever awaits it.

    python3 inside_sandbox.py start  < {"argv": [...], "environment": {...}, "words": {...}}    begins the program, and says when it has
    python3 inside_sandbox.py next   < {"reply": {...}} or {}                                   what it asks next, on descriptor 3

Standard library only, since it is run by the sandbox's own Python.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import queue
import re
import resource
import socket
import socketserver
import subprocess
import sys
import threading
from typing import Any

LONGEST = 7 * 2**20  # a report holds 8 MiB
LAST_WORDS = 2_000


class Asked:
    """A request that waits for its reply."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told, self.reply, self.answered = told, dict[str, Any](), threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    """Hands each request on, and writes what is replied."""

    protocol_version = "HTTP/1.1"
    server: Server

    def _hand_on(self) -> None:
        try:
            body = self._body().decode(errors="replace")
        except ValueError as error:
            self.close_connection = True
            self._write({"status": 413, "kind": "text/plain", "body": str(error)})
            return
        retried = self.headers.get("X-Stainless-Retry-Count", "0") not in ("", "0")
        asked = Asked({"method": self.command, "path": self.path.partition("?")[0], "retried": retried, "body": body})
        self.server.asked.put(asked)
        asked.answered.wait()
        self._write(asked.reply)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self._read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            found += self._read(size, len(found))
            self.rfile.readline()
        while self.rfile.readline().strip():
            """What follows the last chunk."""
        return found

    def _read(self, size: int, before: int = 0) -> bytes:
        if size + before > LONGEST:
            raise ValueError(f"A request has at most {LONGEST >> 20} MiB.")
        return self.rfile.read(size)

    def _write(self, reply: dict[str, Any]) -> None:
        body = reply["body"].encode(errors="surrogatepass")
        with contextlib.suppress(OSError):  # it has hung up
            self.send_response(reply["status"])
            self.send_header("Content-Type", reply["kind"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_HEAD = do_POST = _hand_on

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


class Server(http.server.ThreadingHTTPServer):
    """What the program asks, in order; `None` once it is over."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: queue.Queue[Asked | None] = queue.Queue()


class Line(socketserver.UnixStreamServer):
    """Who awaits the next request connects here, one at a time."""

    def __init__(self, path: str, server: Server, program: Program) -> None:
        super().__init__(path, _Turn)
        self.server, self.program = server, program
        self.pending: Asked | None = None
        self.place = path

    def service_actions(self) -> None:
        """Ends all of it once its folder is gone, which is the sandbox's end where processes do not end with it."""
        if not os.path.exists(os.path.dirname(self.place)):
            self.program.end()
            os._exit(0)


class _Turn(socketserver.StreamRequestHandler):
    """One exchange: the reply to what was asked before, and what is asked then."""

    server: Line

    def handle(self) -> None:
        line = self.server
        told = json.loads(self.rfile.readline())
        if line.pending is not None and "reply" in told:
            line.pending.reply = told["reply"]
            line.pending.answered.set()
            line.pending = None
        if line.pending is None:
            line.pending = line.server.asked.get()
        event = line.pending.told if line.pending is not None else line.program.over()
        self.wfile.write(json.dumps(event).encode() + b"\n")


class Program:
    """The program of a job, with what it prints in a file."""

    def __init__(self, job: dict[str, Any], folder: str, address: str) -> None:
        words = {**job["words"], "address": address}

        def filled(text: str) -> str:
            return re.sub(r"{(\w+)}", lambda found: words.get(found[1], found[0]), text)

        self._words = open(os.path.join(folder, "words"), "w+b")  # noqa: SIM115 - as long as the program
        environment = {**os.environ, **{name: filled(value) for name, value in job["environment"].items()}}
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        self._process = subprocess.Popen(
            [filled(word) for word in job["argv"]],
            stdin=subprocess.DEVNULL,
            stdout=self._words,
            stderr=self._words,
            env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (hard, hard)),  # some reserve far more than they take
        )

    def wait(self) -> None:
        """Until it ends."""
        self._process.wait()

    def end(self) -> None:
        """Ends it."""
        self._process.kill()

    def over(self) -> dict[str, Any]:
        """How it ended."""
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - LAST_WORDS))
        return {"ended": self._process.wait(), "words": self._words.read().decode(errors="replace")}


def start(folder: str) -> None:
    """Begins the program of the job on standard input, in a process that goes on by itself; says `ready`, or why it cannot."""
    job = json.load(sys.stdin)
    os.makedirs(folder, exist_ok=True)
    ready, said = os.pipe()
    if os.fork():
        os.close(said)
        with os.fdopen(ready) as words:
            sys.stdout.write(words.read())
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2, 3):
        with contextlib.suppress(OSError):
            os.dup2(null, number)
    try:
        line = _begun(job, folder)
    except Exception as error:
        told = f"{error.strerror}: {error.filename or job['argv'][0]}" if isinstance(error, OSError) and error.strerror else str(error)
        os.write(said, told.encode(errors="replace"))
        os._exit(1)
    os.write(said, b"ready")
    os.close(said)
    line.serve_forever()


def _begun(job: dict[str, Any], folder: str) -> Line:
    server = Server()
    program = Program(job, folder, f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def told_at_the_end() -> None:
        program.wait()
        server.asked.put(None)

    threading.Thread(target=told_at_the_end, daemon=True).start()
    return Line(os.path.join(folder, "line"), server, program)


def following(folder: str) -> None:
    """Replies to what the program asked, and writes what it asks next to descriptor 3."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.path.join(folder, "line"))
        line.sendall(sys.stdin.buffer.read().strip() + b"\n")
        with line.makefile("rb") as answer, os.fdopen(3, "wb") as report:
            report.write(answer.read())


if __name__ == "__main__":
    {"start": start, "next": following}[sys.argv[1]](os.path.join(os.environ.get("HOME", "/tmp"), ".patchgrad-program"))
