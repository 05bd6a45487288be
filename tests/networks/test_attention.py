"""The compiled kernel: the same code whether this process compiled it or loaded it from Numba's cache, and nothing that nobody wants."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from patchgrad.networks.attention import Cache
from patchgrad.networks.cached import CachedDecoder, blocks, exact
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.values import ids

ATTENDED = """
import hashlib
import numpy as np
from patchgrad.networks.attention import Cache
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


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((192, 1024), (192, 1024)),  # a cache holds it
        ((576, 3072), (6, 576, 512)),
        ((576, 960), (2, 576, 480)),
        ((1536, 576), (2, 1536, 288)),
        ((576, 49152), (96, 576, 512)),
        ((1024, 151936), (1187, 1024, 128)),
        ((576, 1009), (576, 1009)),  # a prime
    ],
)
def test_a_large_matrix_lies_in_blocks_of_its_columns(shape: tuple[int, int], found: tuple[int, ...]) -> None:
    matrix = torch.arange(shape[1]).float().expand(shape)
    made = blocks(matrix)
    assert tuple(made.shape) == found
    assert made.is_contiguous()
    assert torch.equal(made.transpose(0, 1).flatten(1) if made.dim() == 3 else made, matrix)
