"""What a gateway costs a call of a program of others: its own time, beside an answer that takes none, as the history grows.

    python benchmarks/sampling/gateway.py [--turns 128] [--tokens 69000] [--rounds 5] [--rllm]

A client asks as many times as an attempt has turns, each time with the whole history, which ends at about so many tokens (4 letters each).
Prints the median milliseconds of a call in the first and in the last turns, here and to a server that only reads and answers; JSON last.
What of it is work of our own, and grows, is told in CPU milliseconds apart (`parts`): to read the request, to know it again where it is
asked again, and to find the turn that it goes on from.

Ours finds the turn that a history goes on from, and has the tokens of the answers already. `--rllm` is rllm-model-gateway in a process of
its own, round by round beside ours: it sends each question on to a server, which answers as vLLM does, with the tokens of the prompt and of
the answer, and keeps them in SQLite. The time of that server without a gateway is told too (`vllm`); what is above it is the gateway's.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import itertools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.peers import Peer

from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.conversation import Begun, ProgramConversation
from patchgrad.agents.gateway.dialects import Posted, Sampled, posted
from patchgrad.agents.gateway.history import History
from patchgrad.rollouts.access import Alone
from patchgrad.testing.examples import example_turn
from patchgrad.values import Turn

T = TypeVar("T")
WIRE = "/v1/chat/completions"
EDGE = 8  # turns at either end of an attempt that are told
ANSWER = 8  # tokens of an answer
RLLM = Peer("rllm-model-gateway", ("rllm-model-gateway==0.1.0",))


@contextmanager
def answering(answers: Callable[[], bytes]) -> Iterator[str]:
    """The address of a server that reads each request, and says what is next."""

    class Next(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            content = answers()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Next)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def histories(turns: int, tokens: int) -> Iterator[tuple[bytes, Turn]]:
    """What a program asks before each turn, and the turn that is made of it; `tokens` of four letters are in the last question."""
    observation = "word " * (4 * tokens // turns // 5)
    said: list[dict[str, Any]] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Mend it."}]
    for number in range(turns):
        yield json.dumps({"model": "patchgrad", "messages": said}).encode(), example_turn("", f"look {number}")
        said += [{"role": "assistant", "content": f"look {number}"}, {"role": "user", "content": observation}]


def as_vllm(turns: int, tokens: int) -> list[bytes]:
    """What vLLM would answer in each turn: the tokens of the prompt and of the answer, each with its log-probability."""
    found = []
    for number in range(turns):
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": f"look {number}"},
            "finish_reason": "stop",
            "token_ids": [100 + place for place in range(ANSWER)],
            "logprobs": {"content": [{"token": "look", "logprob": -0.5, "bytes": [108], "top_logprobs": []}] * ANSWER},
        }
        prompt = [1000 + place % 30_000 for place in range((number + 1) * tokens // turns)]
        usage = {"prompt_tokens": len(prompt), "completion_tokens": ANSWER, "total_tokens": len(prompt) + ANSWER}
        told = {
            "id": f"chat-{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "patchgrad",
            "choices": [choice],
            "usage": usage,
        }
        found.append(json.dumps({**told, "prompt_token_ids": prompt}).encode())
    return found


def asked(address: str, token: str, bodies: list[bytes], path: str = WIRE) -> list[float]:
    """Seconds of each call, one after the other over one connection."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found = []
    for body in bodies:
        began = time.perf_counter()
        connection.request("POST", path, body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        if (said := answer.read()) and answer.status != 200:
            raise SystemExit(f"{address} answered {answer.status}: {said[:200]!r}")
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


def parts(made: list[tuple[bytes, Turn]]) -> Mapping[str, list[float]]:
    """CPU seconds of each call for what our gateway does with a request, part by part."""
    history, seconds = History(tells_tools=False), {name: list[float]() for name in ("reading", "digest", "finding")}

    def timed(name: str, work: Callable[[], T]) -> T:
        began = time.thread_time()
        done = work()
        seconds[name].append(time.thread_time() - began)
        return done

    for body, turn in made:
        request = timed("reading", partial(posted, WIRE, body))
        assert isinstance(request, Posted)
        timed("digest", partial(hashlib.blake2b, body))
        timed("finding", partial(history.step, request.request))
        history.answered(Sampled(read(turn.action.text), turn.action, turn.context, 0).said)
    return seconds


def through_nothing(bodies: list[bytes], answers: list[bytes]) -> list[float]:
    """The same calls, to a server that has these answers."""
    with answering(iter(answers).__next__) as address:
        return asked(address, "-", bodies)


def through_rllm(bodies: list[bytes], answers: list[bytes]) -> list[float]:
    """The calls of one session of rllm-model-gateway, in front of a server that has these answers."""
    with answering(iter(answers).__next__) as behind, tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        options = ["--host", "127.0.0.1", "--port", str(port), "--worker", behind, "--db-path", f"{folder}/traces.db", "--store", "sqlite"]
        gateway = subprocess.Popen([RLLM.python, "-m", "rllm_model_gateway", *options, "--log-level", "error"])
        try:
            _until_it_listens(port)
            return asked(f"http://127.0.0.1:{port}", "-", bodies, "/sessions/one/v1/chat/completions")
        finally:
            gateway.kill()
            gateway.wait()


def _until_it_listens(port: int) -> None:
    for _ in range(600):
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("the gateway did not listen within a minute")


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
    options.add_argument("--rllm", action="store_true", help="rllm-model-gateway beside ours")
    given = options.parse_args()
    made = list(histories(given.turns, given.tokens))
    bodies, turns = [body for body, _ in made], [turn for _, turn in made]
    empty, told = [b"{}"] * given.turns, as_vllm(given.turns, given.tokens)
    ways: dict[str, Callable[[], list[float]]] = {
        "gateway": lambda: through_gateway(bodies, turns),
        "echo": lambda: through_nothing(bodies, empty),
    }
    if given.rllm:
        ways |= {"rllm": lambda: through_rllm(bodies, told), "vllm": lambda: through_nothing(bodies, told)}
    seconds: dict[str, list[list[float]]] = {name: [] for name in ways}
    for _, (name, way) in itertools.product(range(given.rounds), ways.items()):
        seconds[name].append(way())
    found = {name: summary(rounds) for name, rounds in seconds.items()}
    for name, of in found.items():
        print(f"{name:8} first turns {of['first']:.2f} ms, last {of['last']:.2f} ms")
    rounds = [parts(made) for _ in range(given.rounds)]
    own = {name: summary([one[name] for one in rounds]) for name in rounds[0]}
    for name, of in own.items():
        print(f"{name:8} first turns {of['first']:.2f} ms of a core, last {of['last']:.2f}")
    tell({"turns": given.turns, "tokens": given.tokens, "bytes": len(bodies[-1]), **found, "parts": own})


if __name__ == "__main__":
    main()
