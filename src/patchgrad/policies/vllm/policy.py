"""vLLM as a policy: token ids in, token ids and log-probabilities out, under weights that the trainer hands over in a folder."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import weakref
from collections import ChainMap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from patchgrad.contracts import Weights
from patchgrad.errors import ConfigError, ContextFault, PolicyFault
from patchgrad.networks import folder as folders
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.policies.vllm.server import MODEL, Server
from patchgrad.values import Action, Ids, Message, Origin, Sampling, floats, ids, stream_digest

TRIES = 3  # of one question, each at a server that lives


class VllmPolicy:
    """Answers up to `sessions` at once. vLLM batches them and shares prefixes inside a group and across turns by itself.

    Weights go through a folder, in memory where the machine has `/dev/shm`, and are reloaded in place; a restarted server begins with the
    last ones. A server that dies is started again and asked again: an action is drawn from its own seed, so nothing is drawn twice. `load`
    waits until the actions under way have ended, because an action has one version. Every setting is sent with every question, and the
    server takes none from the model's `generation_config.json`.
    """

    def __init__(
        self,
        config: DecoderConfig,
        weights: Weights,
        tokenizer: ChatTokenizer,
        *,
        context: int,
        sessions: int = 64,
        python: str = "python",
        options: Sequence[str] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._config, self._context, self._version = config, context, 0
        self._eos = tokenizer.eos | frozenset(config.eos)
        self._home = Path(tempfile.mkdtemp(prefix="patchgrad-vllm-", dir=_roomy(weights)))
        self._threads = ThreadPoolExecutor(sessions, "vllm")
        self._turn = threading.Condition()
        self._acting, self._loading, self._closed = 0, False, False
        try:
            self._folder = self._written(weights)
            self._server = Server(self._folder, self._home, context=context, python=python, options=options)
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        self._end = weakref.finalize(self, self._server.stop)

    @property
    def version(self) -> int:
        return self._version

    @property
    def pid(self) -> int:
        """The process below which vLLM runs; 0 where none does."""
        return self._server.pid

    @property
    def context(self) -> int:
        return self._context

    @property
    def tokenizer(self) -> ChatTokenizer:
        return self._tokenizer

    @property
    def stops(self) -> frozenset[int]:
        return self._eos

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        """Samples one turn. Raises `ContextFault` when the stream leaves no room in the context, `PolicyFault` without an answer."""
        sampling.check()
        limit = min(sampling.max_tokens, self._context - len(tokens))
        if limit < 1 or not len(tokens):
            raise ContextFault(f"a stream of {len(tokens)} tokens leaves nothing to sample in a context of {self._context}")
        return await asyncio.wrap_future(self._threads.submit(self._act, tokens, sampling, limit))

    def _act(self, tokens: Ids, sampling: Sampling, limit: int) -> Action:
        with self._turn:
            self._turn.wait_for(lambda: not self._loading)
            self._acting += 1
        try:
            return self._action(tokens, self._asked(self._question(tokens, sampling, limit)))
        finally:
            with self._turn:
                self._acting -= 1
                self._turn.notify_all()

    def _question(self, tokens: Ids, sampling: Sampling, limit: int) -> dict[str, Any]:
        return {
            "model": MODEL,
            "prompt": tokens.tolist(),
            "max_tokens": limit,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "seed": sampling.seed % (1 << 63),
            "stop_token_ids": sorted(self._eos),
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
        }

    def _asked(self, question: dict[str, Any]) -> Any:
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

    def _revive(self) -> None:
        """One of those who wait starts the server again with the weights that it had."""
        with self._turn:
            if self._closed:
                raise PolicyFault("the policy was closed")
            if not self._server.healthy():
                self._start(self._folder)

    def _start(self, folder: Path) -> None:
        try:
            self._server.start(folder)
        except (ConfigError, OSError) as error:
            raise PolicyFault(str(error)) from error

    def _action(self, tokens: Ids, told: Any) -> Action:
        """What was drawn, as a turn."""
        drawn, logprobs = ids(told["token_ids"]), floats(np.minimum(told["logprobs"]["token_logprobs"], 0.0))
        stopped = int(drawn[-1]) in self._eos
        text = self.tokenizer.decode(drawn[: len(drawn) - stopped].tolist())
        origin = Origin(stream_digest(tokens), self.tokenizer.fingerprint)
        return Action(drawn, logprobs, self._version, text, "stop" if stopped else "length", origin=origin)

    def release(self, session: str) -> None:
        """Nothing to forget: vLLM drops the prefixes that were not used for longest."""

    def load(self, weights: Weights, version: int) -> None:
        """Has the server take over weights in place and drop every cache; returns when no action runs under the old ones."""
        try:
            with self._turn:
                self._loading = True
                self._turn.wait_for(lambda: not self._acting)
            folder = self._written(weights)
            try:
                self._reload(folder)
            except PolicyFault:
                self._start(folder)
            last, self._folder, self._version = self._folder, folder, version
            shutil.rmtree(last, ignore_errors=True)
        finally:
            with self._turn:
                self._loading = False
                self._turn.notify_all()

    def _reload(self, folder: Path) -> None:
        self._server.ask("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})
        told = self._server.ask("/reset_prefix_cache?reset_running_requests=true")
        if isinstance(told, dict) and not told.get("success", True):
            raise PolicyFault("vLLM kept what it had read under the old weights")

    def _written(self, weights: Weights) -> Path:
        """A fresh model folder with these weights.

        A head that is the embedding is written out: where a config says that they are one, `reload_weights` of vLLM 0.32 takes over the
        embedding, keeps the old head, and answers 200.
        """
        folder = Path(tempfile.mkdtemp(prefix="weights-", dir=self._home))
        head = {"lm_head.weight": weights["model.embed_tokens.weight"].clone()} if self._config.tied else {}
        try:
            folders.save(folder, replace(self._config, tied=False), ChainMap(head, weights))  # type: ignore[arg-type]
            self.tokenizer.save(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    def close(self) -> None:
        """Ends the server and takes its folder away; who still waits for an action gets a `PolicyFault`."""
        self._closed = True
        self._end()
        self._threads.shutdown(cancel_futures=True)


def _roomy(weights: Weights) -> Path | None:
    """Memory that is a folder, where two sets of these weights have room there; else the usual place."""
    size, memory = sum(4 * weight.numel() for weight in weights.values()), Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 3 * size else None
