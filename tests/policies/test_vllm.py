"""vLLM as a policy, against a double that speaks its protocol; for real where PATCHGRAD_VLLM names the Python of an environment with it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.policies.vllm_server import NETWORK, WHICH, called, children, double, opened

from patchgrad.errors import ConfigError, MissingDependency, PolicyFault, SamplingRefused
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.prefixes import apart
from patchgrad.policies.vllm import VllmPolicy
from patchgrad.values import Action, Ids, Message, Sampling

OPENING = (Message("user", "the tests fail"),)
TRIES = 20


@pytest.fixture(scope="module", params=WHICH)
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmPolicy]:
    made = opened(called(request.param, tmp_path_factory.mktemp("server")))
    yield made
    made.close()


def drawn(policy: VllmPolicy, seed: int = 1) -> tuple[Ids, Action]:
    tokens = policy.encode(OPENING, None)
    return tokens, asyncio.run(policy.act("a", tokens, Sampling(16, seed)))


def expected(tokens: Ids, action: Action, network: Decoder) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    stream = torch.from_numpy(np.concatenate([tokens, action.token_ids]).astype(np.int64))
    with torch.no_grad():
        hidden = network.forward_packed(stream, torch.arange(len(stream)), apart([0, len(stream)]).nodes)
        return np.asarray(network.logprobs(hidden[len(tokens) - 1 : -1], stream[len(tokens) :])[0].numpy(), np.float32)


def test_log_probabilities_are_those_of_the_trainer(policy: VllmPolicy) -> None:
    for seed in range(8):
        tokens, action = drawn(policy, seed)
        assert np.allclose(action.logprobs, expected(tokens, action, NETWORK), atol=1e-5)


def test_loaded_weights_answer_at_once_and_name_their_version(policy: VllmPolicy) -> None:
    other = Decoder(NETWORK.config, 1)
    policy.load(dict(other.named_parameters()), 7)
    tokens, action = drawn(policy)
    assert action.version == policy.version == 7
    assert np.allclose(action.logprobs, expected(tokens, action, other), atol=1e-5)
    policy.load(dict(NETWORK.named_parameters()), 0)


@pytest.mark.parametrize("which", WHICH)
def test_each_token_is_drawn_by_the_weights_that_its_span_names_over_the_whole_stream(which: str, tmp_path: Path) -> None:
    networks = [NETWORK, Decoder(NETWORK.config, 1), Decoder(NETWORK.config, 2)]
    policy = opened(called(which, tmp_path), within=True)
    tokens = policy.encode(OPENING, None)

    versions = itertools.count(1)

    async def play() -> list[Action]:
        acting = asyncio.gather(*(policy.act(f"{seed}", tokens, Sampling(300, seed)) for seed in range(4)))
        while not acting.done():
            version = next(versions)
            await asyncio.to_thread(policy.load, dict(networks[version % 3].named_parameters()), version)
        return await acting

    actions: list[Action] = []
    for _ in range(TRIES):  # how many loads an answer meets is the machine's
        actions += asyncio.run(play())
        if max(len(action.spans) for action in actions) > 2:
            break
    policy.close()
    assert max(len(action.spans) for action in actions) > 2
    for action in actions:
        for version in np.unique(action.drawn_under):
            own = action.drawn_under == version
            assert np.allclose(action.logprobs[own], expected(tokens, action, networks[version % 3])[own], atol=2e-5)


def test_training_takes_only_neutral_sampling(policy: VllmPolicy) -> None:
    with pytest.raises(SamplingRefused, match="neutral"):
        asyncio.run(policy.act("a", policy.encode(OPENING, None), Sampling(4, 0, top_p=0.9)))


def test_a_server_that_was_killed_is_started_again_and_draws_the_same(policy: VllmPolicy) -> None:
    _, before = drawn(policy)
    for pid in children(policy):
        os.kill(pid, signal.SIGKILL)
    _, after = drawn(policy)
    assert np.array_equal(before.token_ids, after.token_ids)


def test_a_server_that_dies_at_a_question_is_asked_again(tmp_path: Path) -> None:
    policy = opened(double(tmp_path, DOUBLE_DIES="2"))
    (_, answered), (_, asked_again) = drawn(policy), drawn(policy)
    assert np.array_equal(answered.token_ids, asked_again.token_ids)
    policy.close()


def test_a_server_that_dies_each_time_is_a_fault_of_the_policy(tmp_path: Path) -> None:
    policy = opened(double(tmp_path, DOUBLE_DIES="1"))
    with pytest.raises(PolicyFault, match="3 tries"):
        drawn(policy)
    policy.close()


def test_a_server_that_does_not_open_tells_why(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such device >&2\nexit 3\n")
    program.chmod(0o755)
    before = homes()
    with pytest.raises(ConfigError, match="no such device"):
        opened(str(program))
    with pytest.raises(MissingDependency, match=r"policy\.vllm"):
        opened(str(tmp_path / "nothing"))
    assert homes() == before, "weights of a policy that there is not"


def test_a_killed_trainer_leaves_neither_a_server_nor_its_weights(tmp_path: Path) -> None:
    told = "; ".join(
        (
            "import sys, time",
            f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})",
            "from tests.policies.vllm_server import children, opened",
            f"policy = opened({double(tmp_path)!r})",
            "print(policy._publications.home, *children(policy), flush=True)",
            "time.sleep(60)",
        )
    )
    with subprocess.Popen([sys.executable, "-c", told], stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout
        home, *pids = trainer.stdout.readline().split()
        assert Path(home).is_dir()
        assert pids
        trainer.kill()
    deadline = time.monotonic() + 20
    while Path(home).exists() or any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "it has outlived the trainer"
        time.sleep(0.05)


def homes() -> set[Path]:
    """Where policies have their weights."""
    return {path for root in (Path("/dev/shm"), Path(tempfile.gettempdir())) if root.is_dir() for path in root.glob("patchgrad-vllm-*")}
