"""Replicas of a policy: which one is asked changes nothing, and one that is lost takes nothing with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.replica_links import HereLink, in_a_process
from tests.policies.test_embedded import TOKENIZER, network
from tests.policies.vllm_server import NETWORK, double
from tests.policies.vllm_server import TOKENIZER as SERVED
from tests.policies.vllm_server import opened as served

from patchgrad.contracts import Weights
from patchgrad.errors import ClusterFault, ConfigError, PolicyFault
from patchgrad.links import Link, Message
from patchgrad.policies.embedded import EmbeddedPolicy
from patchgrad.policies.publications import Publications, Published
from patchgrad.policies.replicas.health import MOVES, Standing, State
from patchgrad.policies.replicas.lives import Made
from patchgrad.policies.replicas.making import EMBEDDED, VLLM
from patchgrad.policies.replicas.messages import Act, Load, Open, Question
from patchgrad.policies.replicas.policy import ReplicatedPolicy
from patchgrad.policies.replicas.present import Patience
from patchgrad.policies.replicas.routing import SLACK, Router
from patchgrad.policies.vllm import Installed
from patchgrad.testing import check_trainable_policy
from patchgrad.values import Action, Sampling
from patchgrad.values import Message as Said

OPTIONS = {"context": 400, "sessions": 8}
USUAL = Patience(again=0.05)
QUICK = Patience(answer=0.5, token=0.0, probe=3.0, again=0.05)
STATES: tuple[State, ...] = ("opening", "stale", "serving", "draining", "suspect", "dead")


def weights(seed: int) -> Weights:
    return {name: parameter.detach() for name, parameter in network(seed).named_parameters()}


def replicated(opened: Any, count: int = 2, patience: Patience = USUAL) -> ReplicatedPolicy:
    made = network()
    return ReplicatedPolicy(Made(opened, EMBEDDED, OPTIONS), count, (made.config, weights(0), TOKENIZER), context=400, patience=patience)


class Links:
    """Makes links, and keeps them; `heard` may end or freeze one at a message."""

    def __init__(self, heard: Callable[[HereLink, Message], None] = lambda link, message: None, *, blind: bool = False) -> None:
        self.made: list[HereLink] = []
        self._heard, self._blind = heard, blind

    async def __call__(self, number: int) -> Link:
        self.made.append(HereLink(f"replica {number}", blind=self._blind, heard=self._heard))
        return self.made[-1]


def acts(link: HereLink) -> list[str]:
    """The sessions that a replica was asked for."""
    return [one.content.session for one in link.said if isinstance(one, Question) and isinstance(one.content, Act)]


async def drawn(policy: Any, count: int = 6, tokens: int = 12) -> list[Action]:
    """Actions of so many sessions at once."""
    first = [policy.encode([Said("user", f"the tests fail {i % 3}")], None) for i in range(count)]
    asked = (policy.act(f"session {i}", stream, Sampling(tokens, seed=i)) for i, stream in enumerate(first))
    return list(await asyncio.gather(*asked))


def alone(seed: int, version: int) -> list[Action]:
    """What one policy draws with these weights."""
    policy = EmbeddedPolicy(network(), TOKENIZER, sessions=8, context=400)
    policy.load(weights(seed), version)
    found = asyncio.run(drawn(policy))
    policy.close()
    return found


def same(found: list[Action], expected: list[Action]) -> bool:
    """The same ids, log-probabilities to the bit, and versions."""
    return all(
        np.array_equal(a.token_ids, b.token_ids) and np.array_equal(a.logprobs, b.logprobs) and a.version == b.version
        for a, b in zip(found, expected, strict=True)
    )


def test_replicas_keep_the_contract_of_a_policy_that_can_be_trained() -> None:
    asyncio.run(check_trainable_policy(lambda: replicated(Links()), weights(1)))


def test_replicas_draw_what_one_policy_draws() -> None:
    policy = replicated(Links())
    assert same(asyncio.run(drawn(policy)), alone(0, 0))
    policy.load(weights(3), 7)
    assert same(asyncio.run(drawn(policy)), alone(3, 7))
    policy.close()


def test_a_machine_that_does_not_see_the_files_is_sent_them() -> None:
    policy = replicated(Links(blind=True))
    policy.load(weights(3), 7)
    assert same(asyncio.run(drawn(policy)), alone(3, 7))
    policy.close()


def test_sessions_go_to_all_replicas_and_stay() -> None:
    links = Links()
    policy = replicated(links)
    asyncio.run(drawn(policy))
    asyncio.run(drawn(policy))
    asked = [
        [one.content.session for one in link.said if isinstance(one, Question) and isinstance(one.content, Act)] for link in links.made
    ]
    assert all(asked)
    assert not set(asked[0]) & set(asked[1])
    policy.close()


@pytest.mark.parametrize("end", [HereLink.kill, HereLink.leave])
def test_what_a_lost_replica_was_asked_is_drawn_elsewhere_and_it_serves_again_under_the_newest_weights(
    end: Callable[[HereLink], None],
) -> None:
    ended: list[HereLink] = []

    def heard(link: HereLink, message: Message) -> None:
        if isinstance(message, Question) and isinstance(message.content, Act) and not ended:
            ended.append(link)
            end(link)

    links = Links(heard)
    policy = replicated(links)
    assert same(asyncio.run(drawn(policy)), alone(0, 0))
    policy.load(weights(3), 7)
    while len(links.made) < 3 or len(policy.lives.present.serving()) < 2:
        time.sleep(0.01)
    assert same(asyncio.run(drawn(policy)), alone(3, 7))
    policy.close()


@pytest.mark.parametrize("count", [1, 3])
def test_a_question_that_ends_every_replica_is_a_fault_that_names_it_and_takes_no_other_with_it(count: int) -> None:
    def heard(link: HereLink, message: Message) -> None:
        if isinstance(message, Question) and isinstance(message.content, Act) and message.content.session == "session 4":
            link.kill()

    async def asked(policy: ReplicatedPolicy) -> list[Action | BaseException]:
        streams = [policy.encode([Said("user", f"the tests fail {i % 3}")], None) for i in range(6)]
        acting = (policy.act(f"session {i}", stream, Sampling(12, seed=i)) for i, stream in enumerate(streams))
        return list(await asyncio.gather(*acting, return_exceptions=True))

    policy = replicated(Links(heard), count)
    found = asyncio.run(asked(policy))
    assert [i for i, one in enumerate(found) if not isinstance(one, Action)] == [4]
    assert "session 4 ended 4 replicas" in str(found[4])
    policy.close()


def test_a_replica_that_hangs_is_ended_and_one_that_is_slow_is_waited_for() -> None:
    slow: list[HereLink] = []

    def heard(link: HereLink, message: Message) -> None:
        """The first question of all is kept for a second, after which probes are answered; the next one hangs for ever."""
        act = isinstance(message, Question) and isinstance(message.content, Act) and message.content.session != "probe"
        if act and warm and len(slow) < 2:
            slow.append(link)
            link.frozen = True
            if len(slow) == 1:
                asyncio.get_running_loop().call_later(1.0, link.thaw)

    warm: list[Action] = []
    links = Links(heard)
    policy = replicated(links, 1, QUICK)
    warm += asyncio.run(drawn(policy, 1))
    assert same(asyncio.run(drawn(policy, 1)), warm)
    assert len(links.made) == 1, "a slow replica was ended"
    assert same(asyncio.run(drawn(policy, 1)), warm)
    assert len(links.made) == 2, "a replica that hangs was not ended"
    policy.close()


def test_replicas_that_act_take_over_weights_one_after_the_other() -> None:
    links = Links()
    policy = replicated(links)

    async def load_meanwhile() -> list[Action]:
        acting = asyncio.ensure_future(drawn(policy, 8, tokens=200))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(policy.load, weights(3), 1)
        return await acting

    asked = asyncio.run(load_meanwhile())
    assert {action.version for action in asked} <= {0, 1}
    assert {action.version for action in asyncio.run(drawn(policy))} == {1}
    policy.close()


def test_a_replica_that_reads_other_weights_than_those_published_does_not_serve() -> None:
    def heard(link: HereLink, message: Message) -> None:
        if isinstance(message, Question) and isinstance(message.content, Load) and link.name == "replica 1":
            file = max(Path(message.content.weights.folder).glob("*.safetensors"))
            damaged = bytearray(file.read_bytes())
            damaged[-1] ^= 1
            copy = file.with_suffix(".copy")
            copy.write_bytes(damaged)
            copy.replace(file)

    links = Links(heard)
    policy = replicated(links)
    with pytest.raises(PolicyFault, match="its digest differs"):
        policy.load(weights(3), 1)
    policy.close()


def test_replicas_that_cannot_open_tell_why_at_once() -> None:
    small = replace(network().config, vocabulary=16)
    cut = {name: weight[:16] if "embed" in name or "head" in name else weight for name, weight in weights(0).items()}
    links = Links()
    with pytest.raises(ConfigError, match="the tokenizer has"):
        ReplicatedPolicy(Made(links, EMBEDDED, OPTIONS), 2, (small, cut, TOKENIZER), context=400, patience=USUAL)
    assert len(links.made) == 2


def test_replicas_that_die_while_they_open_are_given_up() -> None:
    def heard(link: HereLink, message: Message) -> None:
        if isinstance(message, Question) and isinstance(message.content, Open):
            link.kill()

    with pytest.raises(PolicyFault, match="began 3 times and did not open"):
        replicated(Links(heard))


def test_a_replica_that_no_machine_takes_is_tried_again_and_then_given_up() -> None:
    links, refusals = Links(), iter(range(2))

    async def opened(number: int) -> Link:
        if number == 0 and next(refusals, None) is not None:
            raise ClusterFault("no machine has room")
        return await links(number)

    policy = replicated(opened)
    assert same(asyncio.run(drawn(policy)), alone(0, 0))
    policy.close()

    async def never(number: int) -> Link:
        raise ClusterFault("no machine has room")

    with pytest.raises(PolicyFault, match="began 3 times and did not open: no machine has room"):
        replicated(never)


def test_who_waits_for_an_action_of_a_policy_that_is_closed_gets_a_fault() -> None:
    def heard(link: HereLink, message: Message) -> None:
        link.frozen = isinstance(message, Question) and isinstance(message.content, Act)

    policy = replicated(Links(heard))

    async def close_meanwhile() -> list[Action | BaseException]:
        stream = policy.encode([Said("user", "a")], None)
        acting = asyncio.gather(*(policy.act(f"{i}", stream, Sampling(4, seed=i)) for i in range(3)), return_exceptions=True)
        await asyncio.sleep(0.1)
        await asyncio.to_thread(policy.close)
        return list(await acting)

    assert all(isinstance(one, PolicyFault) for one in asyncio.run(close_meanwhile()))


def test_two_publications_are_kept_and_none_outlives_the_policy() -> None:
    policy = replicated(Links())
    home = policy._home.path
    for version in range(1, 5):
        policy.load(weights(version), version)
    assert sorted(json.loads((folder / "manifest.json").read_bytes())["version"] for folder in home.iterdir()) == [3, 4]
    policy.close()
    assert not home.exists()


# --- processes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes() -> Iterator[tuple[ReplicatedPolicy, list[Any]]]:
    made: list[Any] = []

    async def opened(number: int) -> Link:
        made.append(link := await in_a_process(number))
        return link

    policy = replicated(opened, patience=Patience(again=0.05))
    yield policy, made
    policy.close()
    assert all(link.process.poll() is not None for link in made)


def test_processes_draw_what_one_policy_draws_and_a_killed_one_changes_nothing(processes: tuple[ReplicatedPolicy, list[Any]]) -> None:
    policy, made = processes

    async def kill_meanwhile() -> list[Action]:
        acting = asyncio.ensure_future(drawn(policy))
        await asyncio.sleep(0.01)
        os.kill(made[0].process.pid, signal.SIGKILL)
        return await acting

    assert same(asyncio.run(kill_meanwhile()), alone(0, 0))
    policy.load(weights(3), 7)
    assert same(asyncio.run(drawn(policy)), alone(3, 7))


def test_replicas_are_servers_of_vllm_too_and_one_whose_process_is_killed_is_opened_again(tmp_path: Path) -> None:
    made: list[Any] = []

    async def opened(number: int) -> Link:
        made.append(link := await in_a_process(number))
        return link

    state = {name: parameter.detach() for name, parameter in NETWORK.named_parameters()}
    model, options = (NETWORK.config, state, SERVED), {"context": 400, "vllm": Installed(double(tmp_path))}
    policy = ReplicatedPolicy(Made(opened, VLLM, options), 2, model, context=400, untied=True, patience=USUAL)
    one = served(double(tmp_path))
    expected = asyncio.run(drawn(one))
    assert same(asyncio.run(drawn(policy)), expected)
    os.kill(made[0].process.pid, signal.SIGKILL)
    assert same(asyncio.run(drawn(policy)), expected)
    changed = {name: 2 * weight for name, weight in state.items()}
    policy.load(changed, 4)
    one.load(changed, 4)
    assert same(asyncio.run(drawn(policy)), asyncio.run(drawn(one)))
    policy.close()
    one.close()


def test_a_killed_driver_leaves_neither_replicas_nor_their_weights() -> None:
    told = "; ".join(
        (
            "import sys, time",
            f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})",
            "from tests.policies.test_replicas import in_a_process, replicated",
            "policy = replicated(in_a_process, 1)",
            "print(policy._home.path, *(one._link.process.pid for one in policy.lives.present.replicas.values()), flush=True)",
            "time.sleep(60)",
        )
    )
    with subprocess.Popen([sys.executable, "-c", told], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout
        home, pid = driver.stdout.readline().split()
        os.kill(int(pid), signal.SIGSTOP)  # it cannot end by itself
        driver.kill()
    deadline = time.monotonic() + 20
    while Path(home).exists() or Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "it has outlived the driver"
        time.sleep(0.05)


# --- what decides --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(STATES), st.sampled_from(["old", "new"]), st.booleans())))
def test_nothing_but_a_load_of_the_newest_weights_leads_to_serving(steps: list[tuple[State, str, bool]]) -> None:
    standing = Standing()
    for state, held, load in steps:
        before = standing.state
        if load:
            served = standing.loaded(held, newest="new")
            assert served == (held == "new" and before in ("stale", "draining"))
        elif state in MOVES[before]:
            standing.move(state)
            assert standing.state != "serving"
        else:
            with pytest.raises(ValueError, match="cannot be"):
                standing.move(state)
        assert standing.state != "serving" or standing.weights == "new"


@given(
    st.integers(2, 5),
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 500), st.integers(0, 3), st.booleans()), max_size=80),
)
def test_no_session_stays_where_it_is_full_while_others_are_idle(count: int, asked: list[tuple[int, int, int, bool]]) -> None:
    router, replicas, live = Router(), list(range(count)), dict[int, tuple[int, int]]()
    for session, tokens, group, over in asked:
        live.pop(session, None)
        before = router.at(f"{session}")
        if over:
            router.release(f"{session}")
            continue
        chosen = router.choose(f"{session}", tokens, f"{group}", replicas)
        loads = [sum(size for at, size in live.values() if at == replica) for replica in replicas]
        room = max(tokens, SLACK * sum(loads) / count)
        assert loads[chosen] - min(loads) <= (room if chosen == before else tokens), "it was sent where there is no room"
        live[session] = (chosen, tokens)
        assert [router.load(replica) for replica in replicas] == [
            sum(size for at, size in live.values() if at == replica) for replica in replicas
        ]


def test_equal_replicas_take_turns() -> None:
    router = Router()
    chosen = []
    for i in range(9):
        chosen.append(router.choose(f"{i}", 100, f"{i}", [0, 1, 2]))
        router.release(f"{i}")
    assert sorted(chosen[:3]) == sorted(chosen[3:6]) == [0, 1, 2]


def test_a_published_folder_is_one_that_models_are_loaded_from(tmp_path: Path) -> None:
    made = network()
    for untied in (False, True):
        published = Publications(tmp_path, made.config, TOKENIZER, untied=untied).publish(weights(1), 3)
        assert Published(published.folder).version == 3
        assert ("lm_head.weight" in published) == (untied or not made.config.tied)
        assert len(list(published.folder.glob("*.safetensors"))) == made.config.layers + 1
        for name, weight in weights(1).items():
            assert torch.equal(published[name], weight)


def test_half_a_publication_is_none(tmp_path: Path) -> None:
    with pytest.raises(PolicyFault, match="no whole manifest"):
        Published(tmp_path)
