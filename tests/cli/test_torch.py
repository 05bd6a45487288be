"""How training loads torch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASKED = """
import os
from patchgrad.cli import train
before = os.environ.get("OMP_WAIT_POLICY")
train._load_torch()
import torch
assert os.environ.get("OMP_WAIT_POLICY") == before, "what is started from here has the environment that the user gave"
torch.set_num_threads(2)
torch.ones(1 << 20).add_(1)
"""


@pytest.mark.parametrize(("given", "sleep"), [("", True), ("ACTIVE", False)])
def test_helper_threads_sleep_unless_the_user_says_otherwise(given: str, sleep: bool) -> None:
    around = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | {"OMP_DISPLAY_ENV": "verbose"}
    around |= {"OMP_WAIT_POLICY": given} if given else {}
    done = subprocess.run([sys.executable, "-c", ASKED], env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if "GOMP_SPINCOUNT" in done.stderr:  # GNU's OpenMP tells how often its helpers look before they sleep
        assert ("GOMP_SPINCOUNT = '0'" in done.stderr) == sleep
