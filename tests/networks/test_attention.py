"""The compiled kernels: the same code whether this process compiled it or loaded it from Numba's cache, and nothing that nobody wants."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lanes import Floats, Places
from patchgrad.networks.products import exact
from patchgrad.networks.rounding import Precision
from patchgrad.networks.slots import Cache
from patchgrad.values import ids

ATTENDED = """
import hashlib
import numpy as np
from patchgrad.networks.slots import Cache
from patchgrad.networks.decoder import DecoderConfig

cache, random = Cache(DecoderConfig(90, 192, 1, 3, 3, 64), 1, 256), np.random.default_rng(0)
rows = [random.standard_normal((200, 3, 64)).astype(np.float32) for _ in range(3)]
print(hashlib.sha256(cache.attend(0, *rows, np.zeros(200, np.int64), np.arange(200), np.arange(200)).tobytes()).hexdigest())
"""


def test_a_kernel_gives_the_bits_that_it_gives_when_it_is_loaded_from_its_cache(tmp_path: Path) -> None:
    around = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    told = [subprocess.run([sys.executable, "-c", ATTENDED], env=around, capture_output=True, text=True, check=True).stdout for _ in "ab"]
    assert list(tmp_path.rglob("*.nbc")), "the first compiled it, the second did not"
    assert told[0] == told[1]


@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
@pytest.mark.parametrize("wanted", [[], [4], [0, 7, 11], list(range(12))])
def test_what_is_not_wanted_is_left_out_of_the_last_layer_and_the_rest_is_the_same(wanted: list[int]) -> None:
    shape, random = DecoderConfig(90, 32, 2, 4, 2, 8, intermediate=48), np.random.default_rng(0)
    decoder, caches = CachedDecoder(Decoder(shape), 32), [Cache(shape, 2, 32) for _ in "ab"]
    tokens, slots, positions = ids(random.integers(0, 90, 12)).copy(), np.repeat([0, 1], 6), np.tile(np.arange(6), 2)
    some, all_ = (
        decoder.run(cache, tokens, slots, positions, np.array(rows, np.int64))
        for cache, rows in zip(caches, (wanted, range(12)), strict=True)
    )
    assert torch.equal(some, all_[wanted])
    assert np.array_equal(caches[0].keys, caches[1].keys)
    assert np.array_equal(caches[0].values, caches[1].values)


def attended(
    precision: Precision, shape: DecoderConfig, slots: Places, positions: Places, wanted: Places, threads: int = 1, drop: bool = False
) -> Floats:
    """What new tokens see after all that was stored before them, from the same numbers whatever is computed with them."""
    random, cache = np.random.default_rng(0), Cache(shape, 2, 256, precision, threads)
    k, v = (random.standard_normal((2, 256, shape.kv_heads, shape.head_size)).astype(np.float32) for _ in "kv")
    q = random.standard_normal((2, 256, shape.heads, shape.head_size)).astype(np.float32)
    if drop:  # what does not fit into the upper half of a number
        k, v = (torch.from_numpy(part).bfloat16().float().numpy() for part in (k, v))
    everywhere = np.repeat([0, 1], 256), np.tile(np.arange(256), 2)
    whole = [part.reshape(-1, *part.shape[2:]) for part in (q, k, v)]
    cache.attend(0, whole[0], whole[1], whole[2], *everywhere, np.array([], np.int64))
    return cache.attend(0, q[slots, positions], k[slots, positions], v[slots, positions], slots, positions, wanted)


PLACES = np.repeat([0, 1], [200, 60]), np.concatenate([np.arange(20, 220), np.arange(60)])


@pytest.mark.parametrize("heads", [(6, 2), (3, 3), (5, 1)], ids=str)
@pytest.mark.parametrize("window", [0, 70])
def test_over_halves_it_sees_what_it_sees_over_the_same_numbers_whole(heads: tuple[int, int], window: int) -> None:
    shape = DecoderConfig(90, 32, 1, *heads, 10, intermediate=48, windows=(window,) if window else ())
    found, whole = (attended(precision, shape, *PLACES, np.arange(260), drop=True) for precision in ("bfloat16", "float32"))
    assert np.abs(found - whole).max() < 1e-5


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [0, 70])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_a_token_sees_does_not_depend_on_who_is_beside_it(precision: Precision, window: int, threads: int) -> None:
    shape = DecoderConfig(90, 32, 1, 6, 2, 10, intermediate=48, windows=(window,) if window else ())
    together = attended(precision, shape, *PLACES, np.arange(260), threads)
    for number in (0, 1, 7, 8, 100, 199, 200, 259):
        assert np.array_equal(attended(precision, shape, *PLACES, np.array([number]))[0], together[number])
    assert np.array_equal(attended(precision, shape, *PLACES, np.arange(3, 240, 5), threads), together[3:240:5])
