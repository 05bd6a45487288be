"""Adapters as peft has them: its library opens ours, and we open its."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from patchgrad.errors import ConfigError, StoreError
from patchgrad.networks import folder, lora
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora, adapt, adapters
from patchgrad.networks.prefixes import apart

CONFIG = DecoderConfig(90, 32, 2, 4, 2, 8, intermediate=48)
TOKENS = torch.arange(40) % 90


def logits(network: Decoder) -> torch.Tensor:
    with torch.no_grad():
        hidden = network.forward_packed(TOKENS, torch.arange(40), apart([0, 40]).nodes)
        return hidden @ network.head.t()


def trained() -> Decoder:
    """A network whose adapters say something."""
    network = adapt(Decoder(CONFIG), Lora(3, 7.0))
    for number, tensor in enumerate(adapters(network).values()):
        tensor.normal_(std=0.1, generator=torch.Generator().manual_seed(number))
    return network


def test_adapters_come_back_bit_for_bit(tmp_path: Path) -> None:
    network, again = trained(), adapt(Decoder(CONFIG), Lora(3, 7.0), seed=1)
    lora.save(tmp_path, lora.adapters(network), Lora(3, 7.0), "base")
    lora.load(tmp_path, again)
    assert torch.equal(logits(network), logits(again))
    assert not torch.allclose(logits(network), logits(Decoder(CONFIG)), atol=1e-2)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # it warns of its own use of transformers
def test_peft_opens_them_and_computes_the_same(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    network = trained()
    folder.save(tmp_path / "base", CONFIG, Decoder(CONFIG).state_dict())
    lora.save(tmp_path / "adapter", lora.adapters(network), Lora(3, 7.0), str(tmp_path / "base"))
    theirs = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base"), tmp_path / "adapter")
    with torch.no_grad():
        assert torch.allclose(theirs(TOKENS[None]).logits[0], logits(network), atol=1e-5)
    theirs.save_pretrained(tmp_path / "theirs")
    again = adapt(Decoder(CONFIG), Lora(3, 7.0), seed=2)
    lora.load(tmp_path / "theirs", again)
    assert torch.equal(logits(network), logits(again))


def based(place: Path) -> Decoder:
    """A base model's folder, and a checkpoint that has adapters of it alone."""
    base = Decoder(CONFIG)
    folder.save(place / "base", CONFIG, base.state_dict())
    folder.describe(place / "step", CONFIG)
    network = trained()
    known_by = lora.fingerprint(dict(base.named_parameters()))
    lora.save(place / "step" / folder.ADAPTER, lora.adapters(network), Lora(3, 7.0), str(place / "base"), known_by)
    return network


def test_a_folder_of_adapters_opens_as_the_model_that_they_are_for_with_them_added(tmp_path: Path) -> None:
    network, opened = based(tmp_path), folder.load(tmp_path / "step")
    assert all(torch.equal(tensor, dict(opened.named_parameters())[name]) for name, tensor in lora.merged(network).items())
    assert torch.allclose(logits(network), logits(opened), atol=1e-5)


def test_adapters_whose_model_is_another_one_now_or_gone_are_refused_by_name(tmp_path: Path) -> None:
    based(tmp_path)
    folder.save(tmp_path / "base", CONFIG, Decoder(CONFIG, seed=1).state_dict())
    with pytest.raises(StoreError, match="it is another one now"):
        folder.load(tmp_path / "step")
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(ConfigError, match=f"holds adapters of the model {tmp_path}/base, which is needed too"):
        folder.load(tmp_path / "step")


def test_adapters_that_add_nothing_and_are_not_trained_are_not_computed() -> None:
    network = adapt(Decoder(CONFIG), Lora(3, 7.0))
    layers: Any = network.model.layers
    frozen, free = (layers[i].mlp.up_proj for i in (0, 1))
    frozen.lora_B.requires_grad_(False)
    lora.rest(network)
    assert (frozen.resting, free.resting) == (True, False)
    before = logits(network)
    frozen.lora_B.data.fill_(1.0)
    assert torch.equal(logits(network), before)
    lora.rest(network)
    assert not frozen.resting, "it adds something now, as adapters do that were trained before and then frozen"
    assert not torch.allclose(logits(network), before, atol=1e-2)
