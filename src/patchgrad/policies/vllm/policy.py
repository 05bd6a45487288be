"""vLLM as a policy: token ids in, token ids and log-probabilities out, under weights that the trainer hands over in a folder."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np

from patchgrad.contracts import Weights
from patchgrad.errors import ContextFault
from patchgrad.links.kept import KeptFolder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.publications import Publications, Published
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.policies.vllm.gate import Gate
from patchgrad.policies.vllm.server import MODEL, Installed, Server
from patchgrad.policies.vllm.serving import Serving
from patchgrad.values import Action, Ids, Message, Origin, Sampling, floats, ids, stream_digest

INSTALLED = Installed()


class VllmPolicy:
    """Answers up to `sessions` at once. vLLM batches them and shares prefixes inside a group and across turns by itself.

    Weights go through a folder, in memory where the machine has `/dev/shm`, and are reloaded in place; what is `Published` has one already.
    A restarted server begins with the last ones. A server that dies is started again and asked again: an action is drawn from its own seed,
    so nothing is drawn twice. `load` waits until the actions under way have ended; where weights change `within` an action, vLLM holds them
    meanwhile, and reads their streams again under the new weights. Which version drew which token is what the server says. Every setting
    is sent with every question, and the server takes none from the model's `generation_config.json`.
    """

    def __init__(
        self,
        config: DecoderConfig,
        weights: Weights,
        tokenizer: ChatTokenizer,
        *,
        context: int,
        sessions: int = 64,
        vllm: Installed = INSTALLED,
        within: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._context, self._version = context, weights.version if isinstance(weights, Published) else 0
        self._eos = tokenizer.eos | frozenset(config.eos)
        kept = KeptFolder("patchgrad-vllm-", sum(4 * weight.numel() for weight in weights.values()))
        self._threads = ThreadPoolExecutor(sessions, "vllm")
        self._gate, self._within = Gate(), within
        self._publications = Publications(kept.path, config, tokenizer, untied=True)
        try:
            folder = _folder(self._publications, weights, 0)
            server = Server(folder, kept.path, context=context, vllm=vllm)
        except BaseException:
            kept.close()
            raise
        self._end = weakref.finalize(self, _ended, server, kept)
        self._serving = Serving(server, folder, self._version, self._gate)

    @property
    def version(self) -> int:
        return self._version

    @property
    def pid(self) -> int:
        """The process below which vLLM runs; 0 where none does."""
        return self._serving.pid

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
        with nullcontext() if self._within else self._gate.acting():
            told = self._serving.ask(_question(tokens, sampling, limit, self._eos))
        drawn, stopped = ids(told.tokens), told.tokens[-1] in self._eos
        text = self.tokenizer.decode(told.tokens[: len(drawn) - stopped])
        origin = Origin(stream_digest(tokens), self.tokenizer.fingerprint)
        finish: Literal["stop", "length"] = "stop" if stopped else "length"
        spans = told.spans if len(told.spans) > 1 else ()
        return Action(drawn, floats(np.minimum(told.logprobs, 0.0)), told.spans[0][0], text, finish, origin=origin, spans=spans)

    def release(self, session: str) -> None:
        """Nothing to forget: vLLM drops the prefixes that were not used for longest."""

    def load(self, weights: Weights, version: int) -> None:
        """Has the server take over weights in place and drop every cache; returns when no action goes on under the old ones."""
        with nullcontext() if self._within else self._gate.loading():
            self._serving.take_over(_folder(self._publications, weights, version), version)
            self._version = version
            self._publications.keep(1)

    def close(self) -> None:
        """Ends the server and takes its folder away; who still waits for an action gets a `PolicyFault`."""
        self._serving.close()
        self._end()
        self._threads.shutdown(cancel_futures=True)


def _ended(server: Server, kept: KeptFolder) -> None:
    server.stop()
    kept.close()


def _folder(publications: Publications, weights: Weights, version: int) -> Path:
    """Where the weights lie as files: what was published already is looked through, and not written again."""
    if isinstance(weights, Published):
        weights.check()
        return weights.folder
    return publications.publish(weights, version).folder


def _question(tokens: Ids, sampling: Sampling, limit: int, eos: frozenset[int]) -> dict[str, Any]:
    """What vLLM is asked: every setting is sent, so that none comes from elsewhere."""
    return {
        "model": MODEL,
        "token_ids": tokens.tolist(),
        "sampling_params": {
            "max_tokens": limit,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "seed": sampling.seed % (1 << 63),
            "stop_token_ids": sorted(eos),
            "logprobs": 0,
            "detokenize": False,
        },
    }
