"""What patchgrad uses of vLLM's server, answered by patchgrad's own network.

python vllm_double.py -m MODULE --model FOLDER --uds SOCKET ...
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socketserver
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from patchgrad.networks import folder
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.values import Sampling, ids


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, model: Path, context: int) -> None:
        super().__init__(path, Handler)
        self.policy = EmbeddedPolicy(folder.load(model), ChatTokenizer.load(model), sessions=64, context=context)
        self.asked, self.stale = 0, False

    def answer(self, path: str, body: Any) -> Any:
        if path == "/collective_rpc":
            assert body["method"] == "reload_weights"
            self.stale = True
            self.policy.load(dict(folder.load(body["kwargs"]["weights_path"]).named_parameters()), 1)
        if path.startswith("/reset_prefix_cache"):
            self.stale = False
            return {"success": True}
        if path != "/v1/completions":
            return None
        assert not self.stale, "prefixes of the old weights are answered from"
        self.asked += 1
        if str(self.asked) == os.environ.get("DOUBLE_DIES"):
            os.kill(os.getpid(), signal.SIGKILL)
        sampling = Sampling(
            body["max_tokens"],
            body["seed"],
            body["temperature"],
            body["top_p"],
            max(0, body["top_k"]),
            body["min_p"],
            body["repetition_penalty"],
            "evaluation",
        )
        action = asyncio.run(self.policy.act(str(self.asked), ids(body["prompt"]), sampling))
        logprobs = {"token_logprobs": action.logprobs.tolist()}
        return {"choices": [{"token_ids": action.token_ids.tolist(), "logprobs": logprobs, "finish_reason": action.finish}]}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._say(None)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self._say(self.server.answer(self.path, json.loads(self.rfile.read(size)) if size else None))

    def _say(self, told: Any) -> None:
        body = b"" if told is None else json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass

    def address_string(self) -> str:
        return "here"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-m")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--uds")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--generation-config")
    given, _ = parser.parse_known_args()
    assert given.generation_config == "vllm", "a model's own generation_config.json is never inherited"
    Server(given.uds, given.model, given.max_model_len).serve_forever()
