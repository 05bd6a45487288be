"""The embedded policy: log-probabilities are the trainer's, batching and caching change nothing, loading changes everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from patchgrad.errors import ConfigError, PolicyFault, SamplingRefused
from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.paged import PAGE
from patchgrad.networks.prefixes import apart
from patchgrad.networks.products import exact, supported
from patchgrad.networks.rounding import Precision
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.embedded.draws import Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.store.codec import plain, value
from patchgrad.values import Action, Ids, Message, Sampling, ids

torch.set_num_threads(1)  # several test runs may share the cores
TOKENIZER = ChatTokenizer.train(["the tests fail", "exit code 1"], 300)
OTHERS: tuple[Literal["evaluation", "study"], ...] = ("evaluation", "study")


def network(seed: int = 0, heads: tuple[int, int] = (5, 1)) -> Decoder:
    """Small and far from uniform, so that a wrong prefix shows in what it draws."""
    made = Decoder(DecoderConfig(TOKENIZER.vocabulary, 40, 2, *heads, 8, intermediate=64, eos=(2,)), seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4.0 if parameter.dim() == 2 else 1.0)
    return made


def policy(sessions: int = 8, rows: int = 8, context: int = 400) -> EmbeddedPolicy:
    return EmbeddedPolicy(network(), TOKENIZER, sessions=sessions, context=context, rows=rows)


async def episode(play: EmbeddedPolicy, name: int, turns: int = 4) -> list[tuple[Ids, Action]]:
    """Turns with observations whose lengths differ; returns each stream with what was drawn after it."""
    tokens = play.encode([Message("system", "Repair."), Message("user", f"task {name % 3}" * (1 + name % 3))], None)
    done = []
    for turn in range(turns):
        action = await play.act(f"session {name}", tokens, Sampling(6 + name % 5, seed=100 * name + turn))
        done.append((tokens, action))
        tokens = ids(np.concatenate([tokens, action.token_ids, play.encode([Message("user", "out" * (turn + name))], action)]))
    return done


def expected(tokens: Ids, action: Action, made: Decoder) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Log-probabilities by the packed network."""
    stream = torch.from_numpy(np.concatenate([tokens, action.token_ids]).astype(np.int64))
    with torch.no_grad():
        hidden = made.forward_packed(stream, torch.arange(len(stream)), apart([0, len(stream)]).nodes)
        logprobs, _ = made.logprobs(hidden[len(tokens) - 1 : -1], stream[len(tokens) :])
    return np.asarray(logprobs.numpy(), np.float32)


@cache
def alone() -> list[list[tuple[Ids, Action]]]:
    """The same episodes, each by itself."""

    async def play() -> list[list[tuple[Ids, Action]]]:
        return [await episode(policy(1, 1), name) for name in range(20)]

    return asyncio.run(play())


@pytest.mark.parametrize(("sessions", "rows"), [(20, 20), (20, 6), (7, 6), (40, 40)])
def test_neighbours_eviction_and_waiting_change_nothing(sessions: int, rows: int) -> None:
    async def together() -> list[list[tuple[Ids, Action]]]:
        play = policy(sessions, rows)
        return await asyncio.gather(*[episode(play, name) for name in range(20)])

    made = network()
    for one, other in zip(asyncio.run(together()), alone(), strict=True):
        for (tokens, action), (_, single) in zip(one, other, strict=True):
            assert np.array_equal(action.token_ids, single.token_ids)
            assert np.allclose(action.logprobs, expected(tokens, action, made), atol=1e-4)


PAGE_BYTES = 2 * 2 * PAGE * 1 * 8 * 4  # keys and values of two layers with one head of eight


@pytest.mark.parametrize(("pages", "threads"), [(40, 1), (7, 1), (3, 1), (14, 2)])
def test_in_pages_neighbours_eviction_and_postponing_change_nothing_but_rounding(pages: int, threads: int) -> None:
    """A stream takes up to two pages, so three hold one and a half: turns begin again, and draw the same."""
    made = network()

    async def together() -> list[list[tuple[Ids, Action]]]:
        play = EmbeddedPolicy(made, TOKENIZER, sessions=20, context=400, rows=20, threads=threads, room=pages * PAGE_BYTES)
        return await asyncio.gather(*[episode(play, name) for name in range(20)])

    for one, other in zip(asyncio.run(together()), alone(), strict=True):
        for (tokens, action), (_, single) in zip(one, other, strict=True):
            assert np.array_equal(action.token_ids, single.token_ids)
            assert np.allclose(action.logprobs, expected(tokens, action, made), atol=1e-4)


def test_a_stream_for_which_no_pages_are_left_is_memory_that_ran_out() -> None:
    async def act() -> Action:
        play = EmbeddedPolicy(network(), TOKENIZER, sessions=2, context=900, room=PAGE_BYTES)
        return await play.act("one", ids([5] * (PAGE + 1)), Sampling(4, seed=0))

    with pytest.raises(MemoryError, match="no room for one stream"):
        asyncio.run(act())


def with_heads(heads: tuple[int, int], sessions: int, rows: int, threads: int, precision: Precision = "float32") -> EmbeddedPolicy:
    made = network(heads=heads)
    return EmbeddedPolicy(made, TOKENIZER, sessions=sessions, context=900, rows=rows, threads=threads, precision=precision)


@cache
def alone_with_heads(heads: tuple[int, int], precision: Precision = "float32") -> list[list[tuple[Ids, Action]]]:
    """Longer episodes, each by itself."""

    async def play() -> list[list[tuple[Ids, Action]]]:
        return [await episode(with_heads(heads, 1, 1, 1, precision), name, turns=6) for name in range(12)]

    return asyncio.run(play())


@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("heads", [(5, 1), (3, 3), (6, 2)], ids=str)
@pytest.mark.parametrize(("sessions", "rows", "threads"), [(12, 12, 1), (5, 3, 1), (30, 7, 1), (12, 12, 2), (5, 3, 3)])
def test_neighbours_eviction_waiting_and_threads_change_no_bit(
    sessions: int, rows: int, threads: int, heads: tuple[int, int], precision: Precision
) -> None:
    async def together() -> list[list[tuple[Ids, Action]]]:
        play = with_heads(heads, sessions, rows, threads, precision)
        return await asyncio.gather(*[episode(play, name, turns=6) for name in range(12)])

    for one, other in zip(asyncio.run(together()), alone_with_heads(heads, precision), strict=True):
        assert [a.token_ids.tobytes() for _, a in one] == [a.token_ids.tobytes() for _, a in other]
        assert [a.logprobs.tobytes() for _, a in one] == [a.logprobs.tobytes() for _, a in other]


@cache
def wide() -> Decoder:
    """A network whose matrices lie in blocks, and whose weights no cache holds."""
    shape = DecoderConfig(TOKENIZER.vocabulary, 512, 8, 8, 4, 64, intermediate=1536, eos=tuple(TOKENIZER.eos))
    return Decoder(shape, seed=1)


@cache
def wide_alone(precision: Precision) -> list[list[tuple[Ids, Action]]]:
    """Episodes of it, each by itself, on one thread."""

    async def play() -> list[list[tuple[Ids, Action]]]:
        alone = [EmbeddedPolicy(wide(), TOKENIZER, sessions=1, context=400, precision=precision) for _ in range(3)]
        return [await episode(one, name, turns=2) for name, one in enumerate(alone)]

    return asyncio.run(play())


@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_products_of_a_wide_network_in_one_lane_and_change_no_bit(threads: int, precision: Precision) -> None:
    async def together() -> list[list[tuple[Ids, Action]]]:
        play = EmbeddedPolicy(wide(), TOKENIZER, sessions=3, context=400, threads=threads, precision=precision)
        assert len(play._lanes) == 1
        return await asyncio.gather(*[episode(play, name, turns=2) for name in range(3)])

    for one, other in zip(asyncio.run(together()), wide_alone(precision), strict=True):
        assert [a.token_ids.tobytes() for _, a in one] == [a.token_ids.tobytes() for _, a in other]
        assert [a.logprobs.tobytes() for _, a in one] == [a.logprobs.tobytes() for _, a in other]
        for tokens, action in one:
            assert np.allclose(action.logprobs, expected(tokens, action, wide()), atol=1e-4 if supported(precision) == "float32" else 0.1)


@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
def test_a_stream_that_is_read_at_once_goes_on_as_one_that_was_drawn(tmp_path: Path) -> None:
    async def play() -> list[tuple[Action, Action]]:
        kept, fresh = policy(context=900), policy(context=900)
        told = []
        for number, (tokens, action) in enumerate(await episode(kept, 4, turns=8)):
            told.append((action, await fresh.act(f"another {number}", tokens, Sampling(6 + 4 % 5, seed=400 + number))))
        return told

    for drawn, read in asyncio.run(play()):
        assert drawn.logprobs.tobytes() == read.logprobs.tobytes()


def test_an_action_ends_with_the_end_of_turn_exactly_when_it_stopped() -> None:
    actions = [action for name in range(6) for _, action in asyncio.run(episode(policy(), name))]
    assert {action.finish for action in actions} == {"stop", "length"}
    for action in actions:
        assert (int(action.token_ids[-1]) in TOKENIZER.eos) == (action.finish == "stop")
        kept = action.token_ids[: len(action.token_ids) - (action.finish == "stop")]
        assert action.text == TOKENIZER.decode(kept.tolist())


def test_an_action_ends_at_the_second_end_that_a_folders_generation_config_names(tmp_path: Path) -> None:
    def drawn(made: Decoder) -> list[Action]:
        play = EmbeddedPolicy(made, TOKENIZER, sessions=8, context=400, rows=8)
        tokens = play.encode([Message("user", "x")], None)

        async def each() -> list[Action]:
            return await asyncio.gather(*[play.act(str(seed), tokens, Sampling(12, seed=seed)) for seed in range(16)])

        return asyncio.run(each())

    folder.save(tmp_path, network().config, network().state_dict())
    plain_ones = drawn(folder.load(tmp_path))
    (first,) = network().config.eos
    often = np.bincount(np.concatenate([action.token_ids[:-1] for action in plain_ones]), minlength=TOKENIZER.vocabulary)
    second = next(int(token) for token in often.argsort()[::-1] if token not in TOKENIZER.eos | {first})
    beside = tmp_path / "generation_config.json"
    beside.write_text(json.dumps({"eos_token_id": [first, second]}))
    ended = 0
    for before, action in zip(plain_ones, drawn(folder.load(tmp_path)), strict=True):
        places = np.flatnonzero(before.token_ids == second)
        assert action.token_ids.tolist() == before.token_ids[: places[0] + 1 if len(places) else None].tolist()
        if len(places):
            assert action.finish == "stop"
            assert action.text == TOKENIZER.decode(action.token_ids[:-1].tolist())
            ended += int(places[0]) + 1 < len(before.token_ids)
    assert ended, "some went on after it where it was no end"


def test_the_draw_follows_the_softmax() -> None:
    async def draws() -> list[Action]:
        play = policy(64, 64)
        tokens = play.encode([Message("user", "x")], None)
        return await asyncio.gather(*[play.act(str(i), tokens, Sampling(1, seed=i)) for i in range(2000)])

    actions = asyncio.run(draws())
    counts = np.bincount([int(action.token_ids[0]) for action in actions], minlength=TOKENIZER.vocabulary)
    chances = {int(action.token_ids[0]): float(np.exp(action.logprobs[0])) for action in actions}
    token = int(counts.argmax())
    error = np.sqrt(chances[token] * (1 - chances[token]) / 2000)
    assert abs(counts[token] / 2000 - chances[token]) < 4 * error


def test_new_weights_are_what_the_next_turn_runs_on() -> None:
    async def play() -> tuple[Ids, Action]:
        first = policy()
        done = await episode(first, 1, turns=1)
        other = dict(network(seed=5).named_parameters())
        first.load(other, 7)
        tokens = ids(np.concatenate([done[0][0], done[0][1].token_ids, first.encode([Message("user", "go")], done[0][1])]))
        return tokens, await first.act("session 1", tokens, Sampling(8, seed=3))

    tokens, action = asyncio.run(play())
    assert action.version == 7
    assert np.allclose(action.logprobs, expected(tokens, action, network(seed=5)), atol=1e-4)


def test_a_load_between_requests_waits_for_those_under_way() -> None:
    async def play() -> list[Action]:
        first = policy(4, 2)
        tokens = first.encode([Message("user", "x")], None)
        acting = [asyncio.ensure_future(first.act(str(i), tokens, Sampling(30, seed=i))) for i in range(6)]
        await asyncio.sleep(0.005)
        await asyncio.to_thread(first.load, dict(network(seed=5).named_parameters()), 1)
        return [await action for action in acting]

    networks = {0: network(), 1: network(seed=5)}
    tokens = TOKENIZER.encode([Message("user", "x")], None)
    for action in asyncio.run(play()):
        assert np.allclose(action.logprobs, expected(tokens, action, networks[action.version]), atol=1e-4)


@pytest.mark.parametrize(("sessions", "rows", "threads", "pages"), [(6, 6, 1, 0), (6, 3, 2, 0), (6, 6, 1, 3), (6, 6, 2, 40)])
def test_each_token_is_drawn_by_the_weights_that_its_span_names_over_the_whole_stream(
    sessions: int, rows: int, threads: int, pages: int
) -> None:
    """Weights change as often as they can while six sessions act, also where pages are scarce and turns are postponed."""
    networks = [network(seed) for seed in range(3)]

    async def play() -> list[list[tuple[Ids, Action]]]:
        play = EmbeddedPolicy(
            network(0), TOKENIZER, sessions=sessions, context=400, rows=rows, threads=threads, room=pages * PAGE_BYTES, within=True
        )
        acting = asyncio.gather(*(episode(play, name, 3) for name in range(sessions)))
        version = 0
        while not acting.done():
            version += 1
            await asyncio.to_thread(play.load, dict(networks[version % 3].named_parameters()), version)
        return await acting

    actions = [pair for each in asyncio.run(play()) for pair in each]
    assert any(len(action.spans) > 1 for _, action in actions)
    for tokens, action in actions:
        assert action.newest >= action.version == action.drawn_under[0]
        assert not action.spans or (len(action.spans) > 1 and action.spans[0] == (action.version, 0))
        drawn = action.drawn_under
        assert len(drawn) == len(action.token_ids)
        assert (np.diff(drawn) >= 0).all()
        for version in set(drawn.tolist()):
            own = drawn == version
            np.testing.assert_allclose(action.logprobs[own], expected(tokens, action, networks[version % 3])[own], atol=2e-4)


def test_a_load_within_actions_waits_for_a_token_and_not_for_their_ends() -> None:
    async def play() -> tuple[Action, int]:
        play = EmbeddedPolicy(network(), TOKENIZER, sessions=1, context=400, within=True)
        tokens = play.encode([Message("user", "x")], None)
        for seed in range(100):
            acting = asyncio.create_task(play.act(f"{seed}", tokens, Sampling(300, seed=seed)))
            await asyncio.sleep(0)
            loads = 0
            while not acting.done():
                loads += 1
                await asyncio.to_thread(play.load, dict(network(seed).named_parameters()), play.version + 1)
            if len((await acting).token_ids) > 20:
                return await acting, loads
        raise AssertionError("no long action in a hundred")

    action, loads = asyncio.run(play())
    assert loads > 2
    assert len(action.spans) > 2
    assert value(Action, json.loads(json.dumps(plain(action)))).spans == action.spans, "it is kept in files as it was"


@pytest.mark.parametrize(
    "change",
    [{"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}, {"repetition_penalty": 1.1}],
    ids=lambda change: next(iter(change)),
)
def test_training_takes_only_neutral_sampling(change: dict[str, float]) -> None:
    sampling = Sampling(4, seed=0, **change)  # type: ignore[arg-type]
    tokens = TOKENIZER.encode([Message("user", "x")], None)
    with pytest.raises(SamplingRefused, match="another purpose"):
        asyncio.run(policy().act("a", tokens, sampling))
    for purpose in OTHERS:
        assert len(asyncio.run(policy().act("a", tokens, replace(sampling, purpose=purpose))).token_ids)


def test_greedy_takes_the_best_token_and_top_k_stays_within_k() -> None:
    tokens = TOKENIZER.encode([Message("user", "x")], None)
    act: Callable[[Sampling], Action] = lambda s: asyncio.run(policy().act("a", tokens, replace(s, purpose="evaluation")))  # noqa: E731
    greedy, one = act(Sampling(8, seed=1, temperature=0.0)), act(Sampling(8, seed=2, top_k=1))
    assert np.array_equal(greedy.token_ids, one.token_ids)
    assert np.array_equal(greedy.token_ids, act(Sampling(8, seed=3, top_p=1e-6)).token_ids)


def test_the_context_caps_an_action_and_a_full_one_is_a_fault() -> None:
    tokens = TOKENIZER.encode([Message("user", "x")], None)
    for room in (1, 3):
        action = asyncio.run(policy(context=len(tokens) + room).act("a", tokens, Sampling(50, seed=4)))
        assert len(action.token_ids) <= room
    with pytest.raises(PolicyFault, match="leaves nothing"):
        asyncio.run(policy(context=len(tokens)).act("a", tokens, Sampling(50, seed=4)))


def test_a_folder_plays_like_the_network_it_was_saved_from(tmp_path: Path) -> None:
    made = network()
    folder.save(tmp_path, made.config, made.state_dict())
    TOKENIZER.save(tmp_path)
    opened = EmbeddedPolicy(folder.load(tmp_path), ChatTokenizer.load(tmp_path), sessions=2, context=400)
    (_, one), (_, two) = asyncio.run(episode(opened, 1, 1))[0], asyncio.run(episode(policy(), 1, 1))[0]
    assert np.array_equal(one.token_ids, two.token_ids)


def test_a_tokenizer_with_more_ids_than_the_network_is_refused() -> None:
    with pytest.raises(ConfigError, match="the network 8"):
        EmbeddedPolicy(Decoder(DecoderConfig(8)), TOKENIZER, sessions=1, context=8)


def test_weights_that_are_not_finite_are_a_fault_and_leave_nothing_behind() -> None:
    async def play() -> Action:
        broken, good = policy(), dict(network().named_parameters())
        tokens = broken.encode([Message("user", "x")], None)
        broken.load({name: tensor * float("nan") for name, tensor in good.items()}, 1)
        with pytest.raises(PolicyFault, match="not finite"):
            await broken.act("a", tokens, Sampling(5, seed=0))
        broken.load(good, 2)
        return await broken.act("a", tokens, Sampling(5, seed=0))

    assert np.isfinite(asyncio.run(play()).logprobs).all()


@torch.inference_mode()
def test_the_highest_random_number_draws_no_token_that_was_cut() -> None:
    network = Decoder(DecoderConfig(90, 40, 2, 5, 1, 8, intermediate=64))
    sampler = Sampler(CachedDecoder(network, 64), sessions=1, rows=1, eos=frozenset())
    stream = ids(np.arange(10))
    sampler.admit([Request("a", stream, Sampling(1, seed=0, top_k=2), 1)])
    sampler.draws.uniform[:] = 1.0
    (drawn,) = sampler.step()
    hidden = network.forward_packed(torch.arange(10), torch.arange(10), apart([0, 10]).nodes)
    assert int(drawn.tokens[0]) in network.logits(hidden[-1:]).topk(2).indices[0].tolist()
