"""What the gateway costs a call of a program of others: its own time, beside an answer that takes none, as the history grows.

    python benchmarks/sampling/gateway.py [--turns 128] [--tokens 69000] [--rounds 5]

A client asks as many times as an attempt has turns, each time with the whole history, which ends at about so many tokens (4 letters each).
Prints the median milliseconds of a call in the first and in the last turns, here and to a server that only reads and answers; JSON last.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

from patchgrad.agents.gateway.conversation import Begun, ProgramConversation
from patchgrad.rollouts.access import Alone
from patchgrad.testing.examples import example_turn
from patchgrad.values import Turn

EDGE = 8  # turns at either end of an attempt that are told


class Echo(BaseHTTPRequestHandler):
    """Reads a request and answers with as little as there is."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


def histories(turns: int, tokens: int) -> Iterator[tuple[bytes, Turn]]:
    """What a program asks before each turn, and the turn that is made of it; `tokens` of four letters are in the last question."""
    observation = "word " * (4 * tokens // turns // 5)
    said: list[dict[str, Any]] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Mend it."}]
    for number in range(turns):
        yield json.dumps({"model": "patchgrad", "messages": said}).encode(), example_turn("", f"look {number}")
        said += [{"role": "assistant", "content": f"look {number}"}, {"role": "user", "content": observation}]


def asked(address: str, token: str, bodies: list[bytes]) -> list[float]:
    """Seconds of each call, one after the other over one connection."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found = []
    for body in bodies:
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
        found.append(time.perf_counter() - began)
    connection.close()
    return found


def through_gateway(bodies: list[bytes], turns: list[Turn]) -> list[float]:
    """The calls of one attempt, each answered by its turn at once."""
    calls: Future[list[float]] = Future()

    def start(address: str, token: str, ended: Any) -> Any:
        def work() -> None:
            calls.set_result(asked(address, token, bodies))
            ended("done", "")

        threading.Thread(target=work, daemon=True).start()
        return lambda: None

    async def attempt() -> None:
        conversation = ProgramConversation(Begun({}, start, {"done": "submitted"}, tells_tools=False))
        for number in range(len(turns) + 1):
            await conversation.prompt(turns[:number], Alone())
        await conversation.close()

    asyncio.run(attempt())
    return calls.result()


def through_echo(bodies: list[bytes]) -> list[float]:
    """The same calls, to a server that does nothing."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = asked(f"http://127.0.0.1:{server.server_port}", "-", bodies)
    server.shutdown()
    server.server_close()
    return found


def summary(rounds: list[list[float]]) -> Mapping[str, float]:
    """Median milliseconds of a call in the first and in the last turns."""
    first = [1000 * call for calls in rounds for call in calls[:EDGE]]
    last = [1000 * call for calls in rounds for call in calls[-EDGE:]]
    return {"first": statistics.median(first), "last": statistics.median(last)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--turns", type=int, default=128)
    options.add_argument("--tokens", type=int, default=69_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    made = list(histories(given.turns, given.tokens))
    bodies, turns = [body for body, _ in made], [turn for _, turn in made]
    ours, bare = [], []
    for _ in range(given.rounds):
        ours.append(through_gateway(bodies, turns))
        bare.append(through_echo(bodies))
    found = {"gateway": summary(ours), "echo": summary(bare)}
    for name, told in found.items():
        print(f"{name:8} first turns {told['first']:.2f} ms, last {told['last']:.2f} ms")
    tell({"turns": given.turns, "tokens": given.tokens, "bytes": len(bodies[-1]), **found})


if __name__ == "__main__":
    main()
