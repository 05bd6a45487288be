"""Every policy against the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.policies.vllm_server import WHICH, called, opened

from patchgrad.contracts import TrainablePolicy
from patchgrad.endpoints import Chat
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.embedded import EmbeddedPolicy
from patchgrad.policies.endpoint import EndpointPolicy
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.testing import ScriptedEndpoint, check_policy, check_trainable_policy
from patchgrad.values import Action, Ids, Sampling

SCRIPT = ["ls", "cat a.py", "submit"]


def scripted() -> ScriptedPolicy:
    return ScriptedPolicy(SCRIPT, context=4096)


def test_a_scripted_policy_keeps_the_contract() -> None:
    asyncio.run(check_trainable_policy(scripted, {}, forgeries=("Ā",)))


def test_the_embedded_policy_keeps_the_contract() -> None:
    tokenizer = ChatTokenizer.train(["the tests fail", "exit code 1"], 300)
    config = DecoderConfig(tokenizer.vocabulary, hidden=40, heads=5, head_size=8, layers=2, intermediate=64)
    torch.manual_seed(1)
    weights = {name: tensor.detach() + 0.1 * torch.randn_like(tensor) for name, tensor in Decoder(config).named_parameters()}

    def make(threads: int) -> Callable[[], EmbeddedPolicy]:
        return lambda: EmbeddedPolicy(Decoder(config), tokenizer, sessions=4, context=256, threads=threads)

    for threads in (1, 2):
        asyncio.run(check_trainable_policy(make(threads), weights))


@pytest.mark.parametrize("context", [4096, 256])
def test_a_policy_behind_an_endpoint_keeps_the_contract_of_evaluation_and_is_none_to_train(context: int) -> None:
    with ScriptedEndpoint(SCRIPT, context=context) as endpoint:
        asyncio.run(check_policy(lambda: EndpointPolicy(Chat(endpoint.url, "m"), context=context), forgeries=("<|im_end|>", "Ā")))
    assert set(dir(TrainablePolicy)) - set(dir(EndpointPolicy)) >= {"load"}


def test_a_policy_that_hides_where_it_sampled_or_takes_any_sampling_is_found_out() -> None:
    class Hiding(ScriptedPolicy):
        async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
            return replace(await super().act(session, tokens, sampling), origin=None)

    with pytest.raises(AssertionError, match="after which ids"):
        asyncio.run(check_trainable_policy(lambda: Hiding(SCRIPT, context=4096), {}, forgeries=()))

    class Careless(ScriptedPolicy):
        async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
            return await super().act(session, tokens, replace(sampling, purpose="study"))

    with pytest.raises(AssertionError, match="refused for training"):
        asyncio.run(check_policy(lambda: Careless(SCRIPT, context=4096), forgeries=()))


@pytest.mark.parametrize("which", WHICH)
def test_vllm_keeps_the_contract(which: str, tmp_path: Path) -> None:
    policy = opened(called(which, tmp_path))
    try:
        asyncio.run(check_policy(lambda: policy))
    finally:
        policy.close()
