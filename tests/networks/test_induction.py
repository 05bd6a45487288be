from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.induction import Pointing, plant, planted


def repeated(network: Decoder, length: int = 150) -> float:
    """Mean log-probability of the second copy of a random sequence."""
    once = torch.randint(3, network.config.vocabulary, (length,), generator=torch.Generator().manual_seed(1))
    tokens = torch.cat([once, once])
    with torch.no_grad():
        logits = network.forward_packed(tokens, torch.arange(2 * length), [0, 2 * length]) @ network.head.T
    return float(logits.log_softmax(-1)[length:-1].gather(-1, once[1:, None]).mean())


@pytest.mark.parametrize("shape", [{"hidden": 160, "heads": 5, "kv_heads": 5}, {"hidden": 192, "heads": 4, "kv_heads": 2, "head_size": 48}])
def test_a_planted_network_repeats_what_it_saw_before_any_training(shape: dict[str, Any]) -> None:
    plain, able = (Decoder(DecoderConfig(1024, theta=1e6, **shape)) for _ in range(2))
    plant(able)
    assert repeated(able) > repeated(plain) + 1.0


def test_the_same_seed_plants_the_same_weights() -> None:
    one, other = (Decoder(DecoderConfig(512, kv_heads=5)) for _ in range(2))
    plant(one, 3)
    plant(other, 3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("config", [DecoderConfig(512, family="llama"), DecoderConfig(512, layers=1)])
def test_a_network_without_room_for_the_heads_is_refused(config: DecoderConfig) -> None:
    with pytest.raises(ConfigError, match="induction"):
        plant(Decoder(config))


def test_held_heads_are_put_back_and_nothing_else_is() -> None:
    network = Decoder(DecoderConfig(512, kv_heads=5, theta=1e6))
    plant(network)
    heads = planted(network)
    assert heads is not None
    before, able = {name: p.detach().clone() for name, p in network.named_parameters()}, repeated(network)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)), alpha=0.01)
    heads.restore()
    after = dict(network.named_parameters())
    assert torch.equal(after["model.layers.1.self_attn.q_norm.weight"], before["model.layers.1.self_attn.q_norm.weight"])
    assert not torch.equal(after["model.layers.2.mlp.up_proj.weight"], before["model.layers.2.mlp.up_proj.weight"])
    assert repeated(network) > able - 1.0


def test_planted_heads_are_found_in_a_checkpoint_and_in_no_other_network(tmp_path: Path) -> None:
    network = Decoder(DecoderConfig(512, kv_heads=5))
    assert planted(network) is None
    plant(network)
    folder.save(tmp_path, network.config, {name: p.detach() for name, p in network.named_parameters()})
    assert planted(folder.load(tmp_path)) is not None


def test_after_its_announcement_a_network_prefers_the_tokens_in_sight_that_are_pointed_at() -> None:
    network = Decoder(DecoderConfig(512, hidden=192, heads=3, kv_heads=3, head_size=64, theta=1e6))
    weights = torch.zeros(512)
    weights[100:140] = 1.0
    plant(network, 0, Pointing(announced=7, weights=weights, rest=1))
    seen, unseen = torch.arange(100, 110), torch.arange(110, 140)
    others = torch.randint(200, 500, (60,), generator=torch.Generator().manual_seed(2))

    def preference(last: int) -> float:
        tokens = torch.cat([torch.tensor([1]), others[:30], seen, others[30:], torch.tensor([last])])
        with torch.no_grad():
            hidden = network.forward_packed(tokens, torch.arange(len(tokens)), [0, len(tokens)])
            said = (hidden[-1] @ network.head.T).softmax(-1)
        return float(said[seen].mean() / said[unseen].mean())

    assert preference(7) > 2.0
    assert preference(8) < 1.5
