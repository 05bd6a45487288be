"""Pages: memory goes with tokens, beginnings are shared, and nobody writes to what another reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from patchgrad.errors import OutOfMemory
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.device import DeviceDecoder, blank
from patchgrad.networks.lora import Lora, adapt, merged
from patchgrad.networks.paged import PAGE, PagedCache, Runs, by_pages, by_rows, by_stream, reading
from patchgrad.networks.prefixes import apart

CONFIG = DecoderConfig(90, hidden=32, layers=2, heads=4, kv_heads=2, head_size=8, intermediate=48)
ROOM = 1 << 22  # bytes: 16 pages of that network


def network(config: DecoderConfig = CONFIG) -> Decoder:
    made = Decoder(config, 0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4.0 if parameter.dim() == 2 else 1.0)
    return made


def cache(slots: int = 4, pages: int = 16, length: int = 4 * PAGE) -> PagedCache:
    return PagedCache(CONFIG, slots, length, pages, torch.device("cpu"), torch.float32)


@torch.inference_mode()
def test_it_reads_what_the_compiled_cache_reads() -> None:
    made, random = network(), np.random.default_rng(0)
    sides: list[tuple[Any, Any]] = []
    for decoder in (CachedDecoder(made, 3 * PAGE), DeviceDecoder(made, 3 * PAGE, ROOM)):
        sides.append((decoder, decoder.cache(3)))
    streams = random.integers(0, 90, (3, 3 * PAGE)).astype(np.int32)
    known = [0, 0, 0]
    for _ in range(8):
        slots = random.permutation(3)[: random.integers(1, 4)]
        ends = [min(known[slot] + int(random.choice([1, 7, 150])), 3 * PAGE) for slot in slots]
        where = np.concatenate([np.full(end - known[slot], slot) for slot, end in zip(slots, ends, strict=True)])
        places = np.concatenate([np.arange(known[slot], end) for slot, end in zip(slots, ends, strict=True)])
        wanted = np.flatnonzero(np.diff(where, append=-1))
        logits = []
        for decoder, kept in sides:
            assert kept.grow(slots, np.array(ends))
            logits.append(decoder.run(kept, streams[where, places], where, places, wanted))
        assert torch.allclose(logits[0], logits[1], atol=1e-4)
        for slot, end in zip(slots, ends, strict=True):
            known[slot] = end


def test_pages_come_with_tokens_and_go_with_streams() -> None:
    kept = cache(pages=5)
    assert kept.grow(np.array([0, 1]), np.array([PAGE + 1, 1]))
    assert len(kept.free) == 2
    assert not kept.grow(np.array([0, 2]), np.array([3 * PAGE, 2 * PAGE]))
    assert len(kept.free) == 2  # all or none
    assert kept.grow(np.array([0]), np.array([2 * PAGE]))
    assert len(kept.free) == 2
    kept.cut(0, 0)
    assert len(kept.free) == 4


def test_streams_that_begin_alike_hold_the_same_pages_but_for_the_last() -> None:
    kept = cache()
    kept.grow(np.array([0]), np.array([2 * PAGE + 9]))
    assert kept.copy(1, 0, 0, 2 * PAGE + 5) == 2 * PAGE
    assert kept.table[1, :2].tolist() == kept.table[0, :2].tolist()
    assert len(kept.free) == 13
    kept.cut(0, 0)
    assert len(kept.free) == 14  # one of the three was nobody else's


def test_less_than_a_page_in_common_is_read_again() -> None:
    kept = cache()
    kept.grow(np.array([0, 1]), np.array([PAGE - 1, 30]))
    assert kept.copy(1, 0, 30, PAGE - 1) == 30


def test_who_goes_back_into_a_shared_page_reads_it_again() -> None:
    kept = cache()
    kept.grow(np.array([0]), np.array([2 * PAGE]))
    kept.copy(1, 0, 0, 2 * PAGE)
    assert kept.cut(1, PAGE + 10) == PAGE
    assert kept.cut(0, PAGE + 10) == PAGE + 10  # it is alone there now


class Pages(RuleBasedStateMachine):
    """Streams grow, go back and take over each other's beginnings."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = cache(pages=9)
        self.known = [0, 0, 0, 0]

    @rule(slot=st.integers(0, 3), more=st.integers(1, 300))
    def grows(self, slot: int, more: int) -> None:
        end = min(self.known[slot] + more, 4 * PAGE)
        if self.cache.grow(np.array([slot]), np.array([end])):
            written = range(self.known[slot] // PAGE, -(-end // PAGE))
            assert all(self.cache.holders[self.cache.table[slot, page]] == 1 for page in written if end > self.known[slot])
            self.known[slot] = end

    @rule(slot=st.integers(0, 3), share=st.floats(0, 1))
    def goes_back(self, slot: int, share: float) -> None:
        wanted = int(share * self.known[slot])
        self.known[slot] = self.cache.cut(slot, wanted)
        assert wanted - PAGE < self.known[slot] <= wanted

    @rule(slot=st.integers(0, 3), origin=st.integers(0, 3), share=st.floats(0, 1))
    def takes_over(self, slot: int, origin: int, share: float) -> None:
        last = int(share * self.known[origin])
        if slot != origin and last > self.known[slot]:
            self.known[slot] = self.cache.copy(slot, origin, self.known[slot], last)

    @invariant()
    def every_page_is_free_or_held_as_often_as_it_is_counted(self) -> None:
        held = [page for slot in range(4) for page in self.cache.table[slot, : self.cache.count[slot]].tolist()]
        assert np.array_equal(np.bincount(held, minlength=9), self.cache.holders)
        assert sorted({*held} | {*self.cache.free}) == list(range(9))
        assert not {*held} & {*self.cache.free}

    @invariant()
    def what_is_known_has_pages(self) -> None:
        assert all(self.cache.count[slot] * PAGE >= known for slot, known in enumerate(self.known))


TestPages = Pages.TestCase
TestPages.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(4, 4), (4, 2), (4, 1)]))
@torch.inference_mode()
def test_streams_that_share_pages_read_what_they_would_alone(seed: int, heads: tuple[int, int]) -> None:
    made, random = network(DecoderConfig(90, 32, 2, *heads, 8, intermediate=48)), np.random.default_rng(seed)
    decoder = DeviceDecoder(made, 2 * PAGE, ROOM)
    kept = decoder.cache(2)
    stem, tail = random.integers(0, 90, PAGE + int(random.integers(0, 40))), random.integers(0, 90, 20)

    def read(slot: int, stream: Any, known: int) -> torch.Tensor:
        kept.grow(np.array([slot]), np.array([len(stream)]))
        places = np.arange(known, len(stream))
        return decoder.run(kept, stream[known:].astype(np.int32), np.full(len(places), slot), places, np.array([len(places) - 1]))

    read(0, stem, 0)
    known = kept.copy(1, 0, 0, len(stem))
    assert known == PAGE
    both = np.concatenate([stem, tail])
    shared = read(1, both, known)
    kept.cut(0, 0)
    assert torch.allclose(read(0, both, 0), shared, atol=1e-4)


@pytest.mark.parametrize("room", [-5, 1000])
def test_caches_without_room_for_a_page_are_refused(room: int) -> None:
    with pytest.raises(OutOfMemory, match="are left for the policy's caches"):
        DeviceDecoder(network(), PAGE, room)


def test_new_weights_are_taken_in_place() -> None:
    made = network()
    decoder = DeviceDecoder(made, PAGE, ROOM)
    addresses = {name: parameter.data_ptr() for name, parameter in decoder.network.named_parameters()}
    decoder.refill({name: torch.full_like(parameter, 0.5) for name, parameter in made.named_parameters()})
    for name, parameter in decoder.network.named_parameters():
        assert parameter.data_ptr() == addresses[name]
        assert parameter.eq(0.5).all()


@torch.inference_mode()
def test_it_draws_from_a_network_with_adapters_as_from_their_merger() -> None:
    made = adapt(network(), Lora(2))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora" in name:
                parameter.normal_()
    decoder = DeviceDecoder(made, PAGE, ROOM)
    decoder.refill(merged(made))
    kept = decoder.cache(1)
    kept.grow(np.array([0]), np.array([30]))
    tokens, places = np.arange(30, dtype=np.int32), np.arange(30)
    logits = decoder.run(kept, tokens, np.zeros(30, np.int64), places, places)
    hidden = made.forward_packed(torch.arange(30), torch.arange(30), apart([0, 30]).nodes)
    assert torch.allclose(logits, made.logits(hidden), atol=1e-3)


def test_products_are_in_the_precision_that_is_asked_for_and_norms_are_not() -> None:
    dtypes = {name: parameter.dtype for name, parameter in blank(network(), torch.bfloat16).named_parameters()}
    assert dtypes["model.layers.0.self_attn.q_proj.weight"] == torch.bfloat16
    assert dtypes["model.layers.0.input_layernorm.weight"] == torch.float32
    assert dtypes["model.embed_tokens.weight"] == torch.float32


@pytest.mark.parametrize("pages", [1, 3])
def test_a_cache_has_no_more_pages_than_its_streams_could_fill(pages: int) -> None:
    assert len(DeviceDecoder(network(), pages * PAGE, ROOM).cache(2).free) == 2 * pages


def test_tokens_of_a_slot_are_a_run_of_its_stream() -> None:
    runs = Runs.of(np.array([4, 4, 2]), np.array([10, 11, 3]), np.arange(10, dtype=np.int32).reshape(5, 2))
    assert (runs.firsts.tolist(), runs.lasts.tolist(), runs.ends.tolist()) == ([0, 2], [2, 3], [12, 4])
    assert runs.pages.tolist() == [[8], [4]]


def test_rows_are_those_of_a_streams_pages_up_to_its_end() -> None:
    runs = Runs.of(np.array([0, 1]), np.array([PAGE + 1, 2]), np.array([[3, 1], [2, 0]], np.int32))
    rows = [*range(3 * PAGE, 4 * PAGE), PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 1, 2 * PAGE + 2]
    assert runs.rows.tolist() == rows


def test_where_no_kernel_reads_several_streams_they_are_read_one_by_one() -> None:
    assert reading(torch.device("cpu"), torch.float32, 4, 2, 8) is by_stream


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here")
@pytest.mark.parametrize("heads", [(32, 8), (16, 16)], ids=str)
def test_one_call_reads_all_streams_as_they_are_read_one_by_one(heads: tuple[int, int]) -> None:
    assert reading(torch.device("cuda"), torch.bfloat16, *heads, 128) in (by_pages, by_rows)
