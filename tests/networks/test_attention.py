"""The compiled kernel is the same code whether this process compiled it or loaded it from Numba's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ATTENDED = """
import hashlib
import numpy as np
from patchgrad.networks.attention import Cache
from patchgrad.networks.decoder import DecoderConfig

cache, random = Cache(DecoderConfig(90, 192, 1, 3, 3, 64), 1, 256), np.random.default_rng(0)
rows = [random.standard_normal((200, 3, 64)).astype(np.float32) for _ in range(3)]
print(hashlib.sha256(cache.attend(0, *rows, np.zeros(200, np.int64), np.arange(200)).tobytes()).hexdigest())
"""


def test_a_kernel_gives_the_bits_that_it_gives_when_it_is_loaded_from_its_cache(tmp_path: Path) -> None:
    around = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    told = [subprocess.run([sys.executable, "-c", ATTENDED], env=around, capture_output=True, text=True, check=True).stdout for _ in "ab"]
    assert list(tmp_path.rglob("*.nbc")), "the first compiled it, the second did not"
    assert told[0] == told[1]
