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
from patchgrad.values import Ids, Sampling, ids


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, model: Path, context: int) -> None:
        super().__init__(path, Handler)
        self.policy = EmbeddedPolicy(folder.load(model), ChatTokenizer.load(model), sessions=64, context=context, within=True)
        self.asked, self.paused, self.model = 0, False, model

    def answer(self, path: str, body: Any) -> Any:
        if path in ("/pause?mode=keep", "/resume"):
            self.paused = path != "/resume"
        if path == "/collective_rpc":
            assert body["method"] == "reload_weights"
            assert self.paused, "prefixes of the old weights would be answered from"
            self.model = Path(body["kwargs"]["weights_path"])
        if path == "/update_weight_version":
            self.policy.load(dict(folder.load(self.model).named_parameters()), int(body["new_version"]))
        return self.generate(ids(body["token_ids"]), body["sampling_params"]) if path == "/inference/v1/generate" else None

    def generate(self, tokens: Ids, told: dict[str, Any]) -> Any:
        self.asked += 1
        if str(self.asked) == os.environ.get("DOUBLE_DIES"):
            os.kill(os.getpid(), signal.SIGKILL)
        sampling = Sampling(
            told["max_tokens"],
            told["seed"],
            told["temperature"],
            told["top_p"],
            max(0, told["top_k"]),
            told["min_p"],
            told["repetition_penalty"],
            "evaluation",
        )
        action = asyncio.run(self.policy.act(str(self.asked), tokens, sampling))
        starts = action.spans or ((action.version, 0),)
        ends = [start for _, start in starts[1:]] + [len(action.token_ids)]
        versions = [{"version": str(one), "start": start, "end": end} for (one, start), end in zip(starts, ends, strict=True)]
        logprobs = {"content": [{"logprob": float(value)} for value in action.logprobs]}
        choice = {"token_ids": action.token_ids.tolist(), "logprobs": logprobs, "finish_reason": action.finish, "weight_versions": versions}
        return {"choices": [choice]}


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
