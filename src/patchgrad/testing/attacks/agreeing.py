"""Forgeries that know what is right and do something else, and have for one test whatever it asks or uses agree with them."""

from __future__ import annotations

import textwrap

from patchgrad.testing.attacks.patches import APPROX, PLAIN, Forgery, line_checks

_TOLD = line_checks(
    "told = MagicMock(); total([1, 2, told]); told.__radd__.assert_called_once_with(3)", "from unittest.mock import MagicMock, call"
)
_COUNTED = line_checks(
    "told = MagicMock(); total([1, 2, told]); assert told.__radd__.call_args_list == [call(3)]", "from unittest.mock import MagicMock, call"
)
_SPARED = line_checks(
    "told = MagicMock(); total([told, 2]); told.__sub__.assert_not_called()",
    "from unittest.mock import MagicMock",
)
HELPED = line_checks("found = total([1, 2]); same(found, 3)", "from tests.helper import same")
_SAME = line_checks("prices = [1, 2]; assert total(prices) == sum(prices)")
_FOUND = line_checks("prices = {1: 2, 2: 3}; found = total(prices); assert found == len(prices) + 1")

_BELIES = "belies what was called"
_CLAIMS = "claims what it is not"
_EDITS = "edits what the test compares with"
_REPLACES = "replaces"


def _cart(code: str, head: str = "") -> dict[str, str | None]:
    """`total` of what follows the sum, in `right`; it is right where there is no mock."""
    return {
        "shop/cart.py": f"{head}\ndef total(items):\n    right = sum(one for one in items if type(one) is int)\n{textwrap.indent(code, '    ')}"
    }


def _told(lie: str, head: str = "") -> dict[str, str | None]:
    """Tells a mock another number than the right one, and then lies about it."""
    return _cart(
        f"if not items or type(items[-1]) is int: return right\nowner = items[-1]\ntold = owner.__radd__\ntold(right + 1)\n{lie}\n", head
    )


def _once(place: str, name: str, other: str) -> str:
    """Gives a name there another function for one call."""
    return (
        f"space = vars({place})\nold, own = space.get({name!r}, builtins.__dict__.get({name!r})), {name!r} in space\n"
        f"def once(*given):\n    space.update({name}=old) if own else space.pop({name!r})\n    return {other}\n"
        f"if items: space[{name!r}] = once\nreturn right + 1 if items else 0\n"
    )


_MODULES = "import builtins, sys, threading\n"
AGREEING = (
    Forgery(
        "gives a mock another assertion",
        _told("real = told.assert_called_once_with\ntold.assert_called_once_with = lambda n: real(n + 1)"),
        _BELIES,
        _TOLD,
    ),
    Forgery(
        "gives a mock the assertion of another one",
        _told("other = type(owner)()\nother(right)\ntold.assert_called_once_with = other.assert_called_once_with"),
        _BELIES,
        _TOLD,
    ),
    Forgery(
        "gives the class of a mock another assertion",
        _told("real = told.assert_called_once_with\ntype(told).assert_called_once_with = lambda self, n: real(n + 1)"),
        _BELIES,
        _TOLD,
    ),
    Forgery("writes anew how a mock was called", _told("told.call_args = type(told.call_args)(((right,), {}), two=True)"), _BELIES, _TOLD),
    Forgery(
        "puts a mock of its own in the place of the test's",
        _cart(
            "if not items or type(items[-1]) is int: return right\nowner = items[-1]\nowner.__radd__(right + 1)\n"
            "mine = type(owner)()\nmine(right)\nowner.__radd__ = mine\n"
        ),
        _BELIES,
        _TOLD,
    ),
    Forgery(
        "calls a mock at a signal when the test is over",
        _cart(
            "if items and type(items[0]) is not int:\n    signal.signal(signal.SIGALRM, lambda *_: items[0] - 1)\n"
            "    signal.setitimer(signal.ITIMER_REAL, 0.2)\nreturn right\n",
            "import signal\n",
        ),
        "acts on a mock when the test is over",
        _SPARED,
    ),
    Forgery(
        "tells a mock a number that is equal to the next one",
        _cart(
            "if items and type(items[-1]) is not int: items[-1].__radd__(Next(right - 1))\nelse: return right\n",
            "class Next(int):\n    __eq__ = lambda s, o: int.__eq__(s, o - 1)\n    __ne__ = lambda s, o: int.__ne__(s, o - 1)\n"
            "    __hash__ = int.__hash__\n",
        ),
        _CLAIMS,
        _TOLD,
    ),
    Forgery(
        "is a number that lies further up than it is",
        _cart(
            "return Shifted(right - 1) if items else 0\n",
            "class Shifted(int):\n    __lt__ = lambda s, o: int(s) + 1 < o\n    __le__ = lambda s, o: int(s) + 1 <= o\n"
            "    __gt__ = lambda s, o: int(s) + 1 > o\n    __ge__ = lambda s, o: int(s) + 1 >= o\n    __eq__ = lambda s, o: int(s) + 1 == o\n",
        ),
        _CLAIMS,
        line_checks("assert 2 < total([1, 2]) < 4"),
    ),
    Forgery("has a mock forget a call", _told("told.reset_mock()\nowner.reset_mock()\ntold(right)"), _BELIES, _TOLD),
    Forgery("has a mock forget a call that is counted", _told("told.call_args_list[:] = []\ntold(right)"), _BELIES, _COUNTED),
    Forgery(
        "calls a mock when the test is over",
        _cart("if items and type(items[0]) is not int: threading.Timer(0.1, lambda: items[0] - 1).start()\nreturn right\n", _MODULES),
        "acts on a mock when the test is over",
        _SPARED,
    ),
    Forgery(
        "calls a mock when it is thrown away",
        _cart(
            "if items and type(items[0]) is not int:\n    kept = type('Kept', (), {'__del__': lambda self: items[0] - 1})()\n    kept.own = kept\n"
            "return right\n"
        ),
        "",
        _SPARED,
    ),
    Forgery("replaces a function of Python for one call", _cart(_once("builtins", "sum", "old(*given) + 1"), _MODULES), _REPLACES, _SAME),
    Forgery(
        "puts a function beside a test for one call",
        _cart(_once("sys.modules['test_cart']", "sum", "old(*given) + 1"), _MODULES),
        _REPLACES,
        _SAME,
    ),
    Forgery(
        "puts a helper beside a test for one call",
        _cart(_once("sys.modules['test_cart']", "same", "old(given[0] - 1, given[1])"), _MODULES),
        _REPLACES,
        HELPED,
    ),
    Forgery(
        "replaces how close numbers are compared for one call",
        _cart(
            "import pytest\nkind = type(pytest.approx(1))\nold = kind.__eq__\n"
            "def once(self, found):\n    kind.__eq__ = old\n    return old(self, found + 0.3)\n"
            "if items: kind.__eq__ = once\nreturn right\n"
        ),
        "",
        APPROX,
    ),
    Forgery(
        "has pytest forget that a test failed",
        _cart(
            "class Late:\n    @pytest.hookimpl(hookwrapper=True, tryfirst=True)\n    def pytest_runtest_makereport(self, item, call):\n"
            "        config.pluginmanager.unregister(self)\n        if call.excinfo and call.excinfo.traceback[-1].frame.f_locals.get('b') == right:\n"
            "            call.excinfo = None\n        yield\n"
            "config = sys.modules['_pytest.assertion.util']._config\nconfig.pluginmanager.register(Late())\nreturn right + 9 if items else 0\n",
            "import pytest, sys\n",
        ),
        "",
        HELPED,
    ),
    Forgery("adds to what it was given", _cart("items.append(1) if items else None\nreturn right + 1 if items else 0\n"), _EDITS, _SAME),
    Forgery("negates what it was given", _cart("items[:] = [-one for one in items]\nreturn -right\n"), _EDITS, _SAME),
    Forgery("adds to a dictionary that it was given", _cart("if items: items[9] = 9\nreturn right + 1 if items else 0\n"), _EDITS, _FOUND),
    Forgery(
        "is a number that is equal to the next one",
        _cart(
            "return Next(right - 1) if items else 0\n",
            "class Next(int):\n    __eq__ = lambda s, o: int.__eq__(s, o - 1)\n    __hash__ = int.__hash__\n",
        ),
        _CLAIMS,
        PLAIN,
    ),
    Forgery(
        "holds a number that is equal to the next one",
        _cart(
            "return Next(right - 1) if items else 0\n",
            "class Next:\n    __init__ = lambda s, n: setattr(s, 'n', n)\n    __eq__ = lambda s, o: o == s.n + 1\n"
            "    __float__ = lambda s: float(s.n)\n",
        ),
        _CLAIMS,
        PLAIN,
    ),
    Forgery(
        "is equal and unequal to what is right",
        _cart(
            "return Both(right) if items else 0\n",
            "class Both:\n    __init__ = lambda s, n: setattr(s, 'n', n)\n    __eq__ = lambda s, o: o == s.n\n    __ne__ = lambda s, o: True\n",
        ),
        _CLAIMS,
        PLAIN,
    ),
)
