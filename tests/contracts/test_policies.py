"""Every policy against the contract."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.policies.vllm_server import WHICH, called, opened

from patchgrad.contracts import TrainablePolicy
from patchgrad.endpoints import Chat
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.endpoint import EndpointPolicy
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.testing.endpoint import ScriptedEndpoint
from patchgrad.testing.policy import check_policy


def test_a_scripted_policy_keeps_the_contract() -> None:
    asyncio.run(check_policy(lambda: ScriptedPolicy(["ls", "cat a.py", "submit"], context=4096), forgeries=("Ā",)))


def test_the_embedded_policy_keeps_the_contract() -> None:
    tokenizer = ChatTokenizer.train(["the tests fail", "exit code 1"], 300)

    def make() -> EmbeddedPolicy:
        network = Decoder(DecoderConfig(tokenizer.vocabulary, hidden=40, heads=5, head_size=8, layers=2, intermediate=64))
        return EmbeddedPolicy(network, tokenizer, sessions=4, context=256)

    asyncio.run(check_policy(make))


def test_a_policy_behind_an_endpoint_keeps_the_contract_of_evaluation_and_is_none_to_train() -> None:
    with ScriptedEndpoint(["ls", "cat a.py", "submit"]) as endpoint:
        asyncio.run(check_policy(lambda: EndpointPolicy(Chat(endpoint.url, "m"), context=4096), forgeries=("<|im_end|>", "Ā")))
        asyncio.run(check_policy(lambda: EndpointPolicy(Chat(endpoint.url, "m"), context=256)))
    assert set(dir(TrainablePolicy)) - set(dir(EndpointPolicy)) >= {"load"}


@pytest.mark.parametrize("which", WHICH)
def test_vllm_keeps_the_contract(which: str, tmp_path: Path) -> None:
    policy = opened(called(which, tmp_path))
    try:
        asyncio.run(check_policy(lambda: policy))
    finally:
        policy.close()
