"""A server that is there again when it has died, with the weights that it had last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError, PolicyFault
from patchgrad.policies.vllm.gate import Gate
from patchgrad.policies.vllm.server import Server

TRIES = 3  # of one question, each at a server that lives


@dataclass(frozen=True, slots=True)
class Told:
    """What a server answers: the ids that it drew, their log-probabilities, and from which on each version of the weights drew."""

    tokens: list[int]
    logprobs: list[float]
    spans: tuple[tuple[int, int], ...]


class Serving:
    """Asks a server, and starts it again where it has died; an action is drawn from its own seed, so nothing is drawn twice.

    The server is told which version of the weights it has, and says of each token which one drew it.
    """

    def __init__(self, server: Server, folder: Path, version: int, gate: Gate) -> None:
        self._server, self._weights, self._gate = server, (folder, version), gate
        self._closed = False
        self._name(version)

    @property
    def pid(self) -> int:
        """The process below which vLLM runs; 0 where none does."""
        return self._server.pid

    def ask(self, question: Mapping[str, Any]) -> Told:
        """The answer, from a server that was started again where the one that was asked has died."""
        reason = ""
        for _ in range(TRIES):
            try:
                told = self._server.ask("/inference/v1/generate", question)["choices"][0]
                if told["finish_reason"] == "stop" or len(told["token_ids"]) == question["sampling_params"]["max_tokens"]:
                    return _told(told)
                reason = f"it broke off: {told['finish_reason']}"
            except (KeyError, TypeError, IndexError, ValueError) as error:
                raise PolicyFault(f"vLLM answered in another form than that of 0.32: {type(error).__name__}: {error}") from error
            except PolicyFault as fault:
                if self._closed or self._server.healthy():
                    raise
                reason = str(fault)
            self._revive()
        raise PolicyFault(f"vLLM gave no action in {TRIES} tries: {reason}")

    def take_over(self, folder: Path, version: int) -> None:
        """From now on it serves the weights of this folder, with every cache dropped."""
        try:
            self._reload(folder, version)
            self._weights = folder, version
        except PolicyFault:
            with self._gate.alone:  # who has lost an answer may be starting it again, with the old weights
                self._weights = folder, version
                self._start()

    def close(self) -> None:
        """It is not started again from now on."""
        self._closed = True

    def _revive(self) -> None:
        """One of those who wait starts the server again with the weights that it had."""
        with self._gate.alone:
            if self._closed:
                raise PolicyFault("the policy was closed")
            if not self._server.healthy():
                self._start()

    def _start(self) -> None:
        folder, version = self._weights
        try:
            self._server.start(folder)
        except (ConfigError, OSError) as error:
            raise PolicyFault(str(error)) from error
        self._name(version)

    def _reload(self, folder: Path, version: int) -> None:
        """Holds what it draws between two tokens, drops what it has read, and goes on under other weights."""
        self._server.ask("/pause?mode=keep")
        self._server.ask("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})
        self._name(version)
        self._server.ask("/resume")

    def _name(self, version: int) -> None:
        self._server.ask("/update_weight_version", {"new_version": str(version)})


def _told(choice: Mapping[str, Any]) -> Told:
    spans = tuple((int(span["version"]), int(span["start"])) for span in choice["weight_versions"])
    if not spans or spans[0][1]:
        raise ValueError(f"its tokens have no version: {choice['weight_versions']}")
    return Told(choice["token_ids"], [token["logprob"] for token in choice["logprobs"]["content"]], spans)
