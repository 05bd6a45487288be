"""Every trainer against the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora
from patchgrad.testing import check_trainer
from patchgrad.trainers.local import LocalTrainer

CONFIG = DecoderConfig(50, hidden=40, heads=5, head_size=8, layers=2, intermediate=64)


@pytest.mark.parametrize(
    ("threads", "lora", "offload"), [(1, None, False), (2, None, False), (1, Lora(4), False), (1, None, True)], ids=str
)
@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_the_local_trainer_keeps_the_contract(
    tmp_path: Path, optimiser: Literal["muon", "adamw"], threads: int, lora: Lora | None, offload: bool
) -> None:
    def make() -> LocalTrainer:
        return LocalTrainer(Decoder(CONFIG), optimiser=optimiser, threads=threads, lora=lora, offload=offload)

    # Adam and Muon divide by the size of a gradient, so rounding in a small one is not small in the update.
    check_trainer(make, 50, tmp_path / "checkpoint", tolerance=1e-3)


def test_a_trainer_that_keeps_its_momentum_is_found_out(tmp_path: Path) -> None:
    class Keeping(LocalTrainer):
        def reset_optimiser(self) -> None:
            """Nothing is forgotten."""

    with pytest.raises(AssertionError, match="not that of a fresh one"):
        check_trainer(lambda: Keeping(Decoder(CONFIG)), 50, tmp_path / "checkpoint", tolerance=1e-3)
