from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.prefixes import apart
from patchgrad.runs.demonstrations.induction import Pointing, plant, planted


def repeated(network: Decoder, length: int = 150) -> float:
    """Mean log-probability of the second copy of a random sequence."""
    once = torch.randint(3, network.config.vocabulary, (length,), generator=torch.Generator().manual_seed(1))
    tokens = torch.cat([once, once])
    with torch.no_grad():
        logits = network.forward_packed(tokens, torch.arange(2 * length), apart([0, 2 * length]).nodes) @ network.head.T
    return float(logits.log_softmax(-1)[length:-1].gather(-1, once[1:, None]).mean())


@pytest.mark.parametrize("shape", [{"hidden": 160, "heads": 5, "kv_heads": 5}, {"hidden": 192, "heads": 4, "kv_heads": 2, "head_size": 48}])
def test_a_planted_network_repeats_what_it_saw_before_any_training(shape: dict[str, Any]) -> None:
    plain, able = (Decoder(DecoderConfig(1024, theta=1e6, **shape)) for _ in range(2))
    plant(able)
    assert repeated(able) > repeated(plain) + 1.0


@pytest.mark.parametrize("kv_heads", [1, 3])
def test_where_a_token_stands_twice_the_one_before_it_decides_what_is_repeated(kv_heads: int) -> None:
    """As in `src/lofu/nesu.py`: after `/` comes what came after this `/`."""
    network = Decoder(DecoderConfig(512, hidden=192, heads=3, kv_heads=kv_heads, head_size=64, theta=1e6))
    plant(network)
    right, wrong = [], []
    for path in torch.randint(100, 500, (20, 4), generator=torch.Generator().manual_seed(1)).tolist():
        once = [token for part in path for token in (part, 7)]
        tokens = [50, 51, 52, *once, *range(60, 90), *once[:4]]
        with torch.no_grad():
            hidden = network.forward_packed(torch.tensor(tokens), torch.arange(len(tokens)), apart([0, len(tokens)]).nodes)
            said = (hidden[-1] @ network.head.T).softmax(-1)
        right.append(float(said[path[2]]))
        wrong.append(max(float(said[path[i]]) for i in (1, 3)))
    assert sum(right) > 4 * sum(wrong)


def test_the_same_seed_plants_the_same_weights() -> None:
    one, other = (Decoder(DecoderConfig(512, kv_heads=5)) for _ in range(2))
    plant(one, 3)
    plant(other, 3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_heads_are_the_same_to_the_bit_on_one_core_and_on_two() -> None:
    """Sums of long tensors are split by the cores that torch sees, and a policy is another one after a hundred steps."""
    one, other = (Decoder(DecoderConfig(4001, hidden=192, layers=3, heads=3, kv_heads=3, head_size=64)) for _ in range(2))
    before = torch.get_num_threads()
    try:
        for network, count in ((one, 1), (other, 2)):
            torch.set_num_threads(count)
            plant(network, 3)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(left, right) for left, right in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("config", [DecoderConfig(512, family="llama"), DecoderConfig(512, layers=1), DecoderConfig(512, heads=1)])
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


def test_held_heads_have_no_gradient_and_all_else_keeps_its_own() -> None:
    network = Decoder(DecoderConfig(512, kv_heads=5, theta=1e6))
    plant(network)
    heads = planted(network)
    assert heads is not None
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    heads.restore()
    gradients = {name: torch.ones_like(p) for name, p in network.named_parameters()}
    heads.still(gradients)
    for name, parameter in network.named_parameters():
        assert torch.equal(gradients[name], (parameter != before[name]).float()), name


def test_planted_heads_are_found_in_a_checkpoint_and_in_no_other_network(tmp_path: Path) -> None:
    network = Decoder(DecoderConfig(512, kv_heads=5))
    assert planted(network) is None
    plant(network)
    folder.save(tmp_path, network.config, {name: p.detach() for name, p in network.named_parameters()})
    assert planted(folder.load(tmp_path)) is not None


def pointed(tokens: list[int]) -> torch.Tensor:
    """Probabilities after these tokens, in a network that was told that 6 and then 7 announce one of 100 to 139."""
    network = Decoder(DecoderConfig(512, hidden=192, heads=3, kv_heads=3, head_size=64, theta=1e6))
    plant(network, 0, Pointing(before=6, announced=7, tokens=tuple(range(100, 140)), rest=1))
    with torch.no_grad():
        hidden = network.forward_packed(torch.tensor(tokens), torch.arange(len(tokens)), apart([0, len(tokens)]).nodes)
        return (hidden[-1] @ network.head.T).softmax(-1)


def test_after_its_announcement_a_network_prefers_the_tokens_in_sight_that_are_pointed_at() -> None:
    others = torch.randint(200, 500, (60,), generator=torch.Generator().manual_seed(2)).tolist()
    preference = {}
    for last in ((6, 7), (6, 8), (8, 7)):
        said = pointed([1, *others[:30], *range(100, 110), *others[30:], *last])
        preference[last] = said[100:110].mean() / said[110:140].mean()
    assert preference[6, 7] > 10 * max(preference[6, 8], preference[8, 7])


def test_what_an_earlier_edit_began_with_is_not_pointed_at_again() -> None:
    others = torch.randint(200, 500, (60,), generator=torch.Generator().manual_seed(2)).tolist()
    plain = [token for i in range(5) for token in (others[i], 100 + i)]
    quoted = [token for i in range(5) for token in (7, 130 + i, others[10 + i])]
    said = pointed([1, *others[20:40], *plain, *quoted, *others[40:], 6, 7])
    assert said[100:105].mean() > 2 * said[130:135].mean()


@pytest.mark.parametrize("end", [8, 7], ids=["word", "space"])
def test_what_a_text_was_changed_to_in_an_earlier_edit_is_avoided_where_that_text_is_changed_again(end: int) -> None:
    """Also where a quote that ends in a space closes with the token that opens the next one."""
    others = torch.randint(200, 500, (60,), generator=torch.Generator().manual_seed(2)).tolist()
    edits = [
        token for old, new in ((100, 120), (101, 121), (102, 122)) for token in (*others[old - 100 : old - 90], 6, 7, old, end, 7, new, end)
    ]
    said = {old: pointed([1, *others[20:40], *edits, *others[40:], 6, 7, old, end, 7]) for old in (100, 101, 102)}
    for old in said:
        assert said[old][old + 20] < 0.5 * sum(said[other][old + 20] for other in said if other != old) / 2


def test_of_what_is_in_sight_that_which_was_edited_before_is_not_edited_first() -> None:
    others = torch.randint(200, 500, (200,), generator=torch.Generator().manual_seed(2)).tolist()
    inside = [token for i in range(6) for token in (*others[10 * i : 10 * i + 10], 100 + i)]
    for tried in ([100], [101, 104], [105, 100, 102]):
        edits = [token for n, old in enumerate(tried) for token in (*others[80 + 9 * n : 89 + 9 * n], 6, 7, old, 8, 7, 110 + n, 8)]
        said = pointed([1, *inside, *edits, *others[150:170], 6, 7]).log()
        left = [100 + i for i in range(6) if 100 + i not in tried]
        assert said[left].mean() > said[tried].mean() + 2, f"of {len(tried)}"


def test_what_announces_an_edit_is_known_by_its_embedding_which_is_held() -> None:
    network = Decoder(DecoderConfig(512, hidden=192, heads=3, kv_heads=3, head_size=64, theta=1e6))
    plant(network, 0, Pointing(before=6, announced=7, tokens=(100, 101), rest=1))
    found, weight = planted(network), network.model.embed_tokens.weight
    assert found is not None
    before = weight.detach().clone()
    with torch.no_grad():
        weight += 0.1
    found.restore()
    assert torch.equal(weight[[6, 7, 100, 101]], before[[6, 7, 100, 101]])
    assert not torch.equal(weight[[8, 102]], before[[8, 102]])


def test_where_there_is_nothing_to_edit_nothing_is_said() -> None:
    others = torch.randint(200, 500, (60,), generator=torch.Generator().manual_seed(2)).tolist()
    assert float(pointed([1, *others])[1]) < 0.01, "where the heads look then is not what they say"
