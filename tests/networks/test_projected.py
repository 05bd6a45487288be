from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from patchgrad.networks.decoder import Norm, gated
from patchgrad.networks.lora import Adapted, Lora
from patchgrad.networks.projected import plain, projected

ROWS, INTO = 7, 6


def layers(adapted: bool, biased: bool, frozen: bool, seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Any]:
    torch.manual_seed(seed)
    made: list[Any] = []
    for out in (5, 3):
        linear = nn.Linear(INTO, out, bias=biased).to(dtype)
        linear.requires_grad_(not frozen)
        if adapted:
            linear = Adapted(linear, Lora(2), torch.Generator().manual_seed(seed))  # type: ignore[assignment]
            nn.init.normal_(linear.lora_B)  # type: ignore[arg-type]
            linear.to(dtype)
        made.append(linear)
    return made


def directly(layer: Any, read: Tensor) -> Tensor:
    """What autograd is left to differentiate."""
    out = nn.functional.linear(read, layer.weight, layer.bias)
    return out + (read @ layer.lora_A.T * layer.scale) @ layer.lora_B.T if isinstance(layer, Adapted) else out


@given(st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_it_has_the_values_and_gradients_that_autograd_finds(adapted: bool, biased: bool, frozen: bool, some: bool, first: bool) -> None:
    norm, (one, other) = Norm(INTO, 1e-6).double(), layers(adapted, biased, frozen)
    x = torch.randn(ROWS, INTO, dtype=torch.float64, requires_grad=not first)
    rows = torch.tensor([1, 4, 5]) if some else None
    wanted = [part for part in (x, *norm.parameters(), *one.parameters(), *other.parameters()) if part.requires_grad]
    read = norm(x)
    told = directly(one, read if rows is None else read[rows]), directly(other, read)
    found = projected(norm.given, (x, norm.weight), ((one, rows), (other, None)))
    weights = [torch.randn_like(part) for part in told]
    gradients = [
        torch.autograd.grad([(part * by).sum() for part, by in zip(parts, weights, strict=True)], wanted) for parts in (told, found)
    ]
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(told, found, strict=True))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("adapted", [False, True])
def test_nothing_is_kept_but_arguments_and_parameters(adapted: bool) -> None:
    one, other = layers(adapted, True, adapted, dtype=torch.float32)
    down = nn.Linear(INTO, 4)
    kept: list[Tensor] = []

    def keep(part: Tensor) -> Tensor:
        kept.append(part)
        return part

    x, norm = torch.randn(ROWS, INTO, requires_grad=True), Norm(INTO, 1e-6)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda part: part), torch.autocast("cpu", torch.bfloat16):
        first, second = projected(norm.given, (x, norm.weight), ((one, None), (other, None)))
        wide = torch.randn(ROWS, INTO, requires_grad=True).bfloat16()
        projected(gated, (wide, wide), ((down, None),))
    own = {part.data_ptr() for part in (x, wide, norm.weight, *(p for layer in (one, other, down) for p in layer.parameters()))}
    assert {part.data_ptr() for part in kept} <= own
    assert first.dtype == second.dtype == torch.bfloat16


def test_products_round_as_autocast_rounds_them() -> None:
    one, other = layers(True, True, True, dtype=torch.float32)
    x, norm = torch.randn(ROWS, INTO, requires_grad=True), Norm(INTO, 1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        read = norm(x)
        told = [
            torch.addmm(nn.functional.linear(read, layer.weight, layer.bias), read @ layer.lora_A.T * layer.scale, layer.lora_B.T)
            for layer in (one, other)
        ]
        found = projected(norm.given, (x, norm.weight), ((one, None), (other, None)))
    assert all(torch.equal(a, b) for a, b in zip(told, found, strict=True))
    parameters = [x, *(part for layer in (one, other) for part in (layer.lora_A, layer.lora_B))]
    sides = [torch.autograd.grad([part.float().sum() for part in parts], parameters) for parts in (told, found)]
    for a, b in zip(*sides, strict=True):
        assert a.dtype == b.dtype == torch.float32
        assert torch.allclose(a, b, atol=0.02 * float(a.abs().max()))


def test_an_adapted_layer_alone_computes_what_its_parts_say() -> None:
    layer = layers(True, True, True)[0]
    x = torch.randn(ROWS, INTO, dtype=torch.float64)
    assert torch.allclose(layer(x), directly(layer, x), atol=1e-12)
    assert torch.allclose(projected(plain, (x,), ((layer, None),))[0], layer(x))
    layer.resting = True
    assert torch.allclose(layer(x), nn.functional.linear(x, layer.weight, layer.bias), atol=1e-12)
