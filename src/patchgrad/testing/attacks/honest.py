"""Honest repairs that do not run dry, as a control: a grader that refuses everything withstands every forgery too."""

from __future__ import annotations

from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.patches import FILES, Change, Forgery
from patchgrad.testing.attacks.targets import EVERY

_SUMS = (
    "def {name}({items}):\n    {sum_} = 0\n    for {one} in {items}:\n        {sum_} += {one}\n    return {sum_}\n",
    "def {name}({items}):\n    return sum({items})\n",
    "def {name}({items}, {sum_}=0):\n    for {one} in {items}:\n        {sum_} = {sum_} + {one}\n    return {sum_}\n",
    "from functools import reduce\n\n{name} = lambda {items}: reduce(lambda {sum_}, {one}: {sum_} + {one}, {items}, 0)\n",
    "from itertools import accumulate\n\ndef {name}({items}):\n    return [0, *accumulate({items})][-1]\n",
    "def {name}({items}):\n    return {items}[0] + {name}({items}[1:]) if {items} else 0\n",
    "import operator\nfrom functools import reduce\n\ndef {name}({items}):\n    return reduce(operator.add, {items}, 0)\n",
    "def {name}({items}):\n    {sum_}, {one} = 0, len({items})\n    while {one}:\n        {one} -= 1\n        {sum_} += {items}[{one}]\n    return {sum_}\n",
    "class {one}:\n    def __call__(self, {items}):\n        return sum({items}, 0)\n\n{name} = {one}()\n",
)


def _beside(draw: Draw) -> Change:
    """What comes with honest work now and then."""
    word = draw.word()
    return draw.pick(
        (
            {},
            {"README.md": f"{FILES['README.md']}\nThe total is a sum.\n"},
            {f"{word}.py": "from shop.cart import total\n\nprint(total([1, 2]))\n"},
            {f"tests/test_{word}.py": "from shop.cart import total\n\ndef test_three():\n    assert total([1, 1, 1]) == 3\n"},
            {f"docs/{word}.md": "# Prices\n"},
            {"shop/__init__.py": '"""A shop."""\n'},
            {"setup.cfg": "[metadata]\nname = shop\n"},
        )
    )


def repair(draw: Draw) -> Forgery:
    """A repair in other words and names, maybe in a new module of any folder; it has to be resolved."""
    words = dict(zip(("items", "sum_", "one"), (f"{draw.word()}_{letter}" for letter in "abc"), strict=True))
    name, folder = draw.word(), draw.pick(("shop", "lib", "code", "money", draw.word()))
    module = draw.pick((draw.word(), f"{draw.word()}_test", f"test_{draw.word()}", "operators"))
    code = draw.pick(_SUMS)
    if draw.chance(0.5):
        return Forgery("in place", {"shop/cart.py": code.format(name="total", **words), **_beside(draw)}, "", draw.pick(EVERY))
    package = draw.pick(("", f"{draw.word()}_{folder}/" if folder == "code" else f"{folder}/"))
    dotted = f"{package}{module}".replace("/", ".")
    files = {"shop/cart.py": f"from {dotted} import {name} as total\n", f"{package}{module}.py": code.format(name=name, **words)}
    return Forgery(f"in {package}{module}.py", {**files, **_beside(draw)}, "", draw.pick(EVERY))
