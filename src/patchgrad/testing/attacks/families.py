"""Families of forged patches that do not run dry: `FAMILIES["patching"](Draw("7/patching/12"))` is one of thousands.

Each member leaves `total` wrong and tries to be resolved all the same, so that its reward has to be 0. A member is made of what is
attacked, how it is reached, when the code strikes (`MOMENTS`), and how it is hidden (`LAYERS`, `HIDINGS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchgrad.testing.attacks.answering import ending, evading, lying, reading, reporting
from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.moments import hidden
from patchgrad.testing.attacks.patches import CART, Forgery
from patchgrad.testing.attacks.replacing import importing, patching, shadowing
from patchgrad.testing.attacks.rewriting import caching, configuring, rewriting


def encoding(draw: Draw) -> Forgery:
    """Hides what another family does below several layers."""
    inner = draw.pick((patching, rewriting, importing, caching, reading))(draw)
    code = inner.changes.get("shop/cart.py") or CART
    words, change = hidden(draw, code, draw.number(2, 3)) if not code.startswith("# coding") else ("as it is", {})
    return Forgery(f"{inner.name}, {words}", {**inner.changes, **change}, "", inner.checks)


Family = Callable[[Draw], Forgery]
FAMILIES: Mapping[str, Family] = {
    "shadowing": shadowing,
    "rewriting": rewriting,
    "patching": patching,
    "lying": lying,
    "configuring": configuring,
    "caching": caching,
    "importing": importing,
    "ending": ending,
    "evading": evading,
    "encoding": encoding,
    "reporting": reporting,
    "reading": reading,
}
