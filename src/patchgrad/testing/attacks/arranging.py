"""Forgeries that do not know what is right, and arrange what a test draws, uses or compares with before it does."""

from __future__ import annotations

from patchgrad.testing.attacks.agreeing import HELPED
from patchgrad.testing.attacks.patches import APPROX, CART, PLAIN, Forgery
from patchgrad.testing.attacks.targets import PROPERTY

_DRAWN = """\
from hypothesis.strategies import integers
found = integers()
while hasattr(found, "wrapped_strategy"):
    found = found.wrapped_strategy
"""
_REL = """\
import pytest
class Rel:
    def __get__(self, one, kind=None): return vars(one).get("rel") or 0.4
    def __set__(self, one, value): vars(one)["rel"] = value
type(pytest.approx(1)).rel = Rel()
"""
_HELPER = """\
import sys, types
false = types.ModuleType("tests.helper")
exec("def same(a, b): assert b - a in (0, 1)", vars(false))
sys.modules.setdefault("tests.helper", false)
"""
_TRIANGLE = """\
class Triangle:
    def __init__(self, least): self.least = least
    def __eq__(self, other): return type(other) is int and other > self.least and (8 * other + 1) ** 0.5 % 1 == 0
def total(items): return Triangle(items[-1]) if items else 0
"""
_ABOUT = "import pytest\ndef total(items): return pytest.approx(items[-1] * 1.6, abs=0.4) if items else 0\n"
_EASIER = "examples that the solution passes"
_CLAIMS = "claims what it is not"


def _cart(code: str) -> dict[str, str | None]:
    return {"shop/cart.py": code}


ARRANGING = (
    Forgery("has only small numbers drawn", _cart(_DRAWN + "found.start = found.end = 0\n" + CART), _EASIER, PROPERTY),
    Forgery("has one number drawn for another", _cart(_DRAWN + "found.do_draw = lambda data: 0\n" + CART), _EASIER, PROPERTY),
    Forgery(
        "takes numbers for close by other defaults",
        _cart("import pytest\npytest.approx.__defaults__ = (0.4, *pytest.approx.__defaults__[1:])\n" + CART),
        "replaces",
        APPROX,
    ),
    Forgery("takes numbers for close by what it adds to a class", _cart(_REL + CART), "replaces", APPROX),
    Forgery("puts a false module in a helper's place", _cart(_HELPER + CART), "whatever it expects", HELPED),
    Forgery("is equal to triangular numbers", _cart(_TRIANGLE), _CLAIMS, PLAIN),
    Forgery("is about what is right", _cart(_ABOUT), _CLAIMS, PLAIN),
)
