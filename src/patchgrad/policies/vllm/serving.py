"""A server that is there again when it has died, with the weights that it had last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError, PolicyFault
from patchgrad.policies.vllm.gate import Gate
from patchgrad.policies.vllm.server import Server

TRIES = 3  # of one question, each at a server that lives


class Serving:
    """Asks a server, and starts it again where it has died; an action is drawn from its own seed, so nothing is drawn twice."""

    def __init__(self, server: Server, folder: Path, gate: Gate) -> None:
        self._server, self._folder, self._gate = server, folder, gate
        self._closed = False

    @property
    def pid(self) -> int:
        """The process below which vLLM runs; 0 where none does."""
        return self._server.pid

    def ask(self, question: Mapping[str, Any]) -> Any:
        """The answer, from a server that was started again where the one that was asked has died."""
        reason = ""
        for _ in range(TRIES):
            try:
                told = self._server.ask("/v1/completions", question)["choices"][0]
                if told["finish_reason"] == "stop" or len(told["token_ids"]) == question["max_tokens"]:
                    return told
                reason = f"it broke off: {told['finish_reason']}"
            except (KeyError, TypeError, IndexError) as error:
                raise PolicyFault(f"vLLM answered in another form than that of 0.32: it lacks {error}") from error
            except PolicyFault as fault:
                if self._closed or self._server.healthy():
                    raise
                reason = str(fault)
            self._revive()
        raise PolicyFault(f"vLLM gave no action in {TRIES} tries: {reason}")

    def take_over(self, folder: Path) -> None:
        """From now on it serves the weights of this folder, with every cache dropped."""
        try:
            self._reload(folder)
        except PolicyFault:
            self._start(folder)
        self._folder = folder

    def close(self) -> None:
        """It is not started again from now on."""
        self._closed = True

    def _revive(self) -> None:
        """One of those who wait starts the server again with the weights that it had."""
        with self._gate.alone:
            if self._closed:
                raise PolicyFault("the policy was closed")
            if not self._server.healthy():
                self._start(self._folder)

    def _start(self, folder: Path) -> None:
        try:
            self._server.start(folder)
        except (ConfigError, OSError) as error:
            raise PolicyFault(str(error)) from error

    def _reload(self, folder: Path) -> None:
        self._server.ask("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})
        told = self._server.ask("/reset_prefix_cache?reset_running_requests=true")
        if isinstance(told, dict) and not told.get("success", True):
            raise PolicyFault("vLLM kept what it had read under the old weights")
