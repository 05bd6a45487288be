from __future__ import annotations

from pathlib import Path

import pytest
import torch

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.slices import Slices

CONFIG = DecoderConfig(40, hidden=16, layers=1, heads=2, kv_heads=1, head_size=8, intermediate=16)


def test_rows_are_those_of_the_whole_tensor_and_a_missing_head_is_the_embedding(tmp_path: Path) -> None:
    network = Decoder(CONFIG)
    folder.save(tmp_path, CONFIG, network.state_dict())
    with Slices(tmp_path) as slices:
        for name, tensor in network.state_dict().items():
            assert torch.equal(slices.rows(name, 2, 7), tensor[2:7])
            assert slices.rows(name, 3, 3).shape == tensor[3:3].shape, "of no rows the shape is told all the same"
        assert torch.equal(slices.rows("lm_head.weight", 5, 9), network.head[5:9])
        with pytest.raises(ConfigError, match=r"the model has no model\.other"):
            slices.rows("model.other", 0, 1)


def test_a_file_that_is_cut_is_named(tmp_path: Path) -> None:
    folder.save(tmp_path, CONFIG, Decoder(CONFIG).state_dict())
    path = tmp_path / folder.WHOLE
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ConfigError, match="is not a whole safetensors file"):
        Slices(tmp_path)
