"""What decides a test, and tests that are decided by it: the things that a forgery may replace."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchgrad.testing.attacks.patches import APPROX, CHECKS, DECIMAL, MOCK, OPERATOR, PLAIN, RAISES, line_checks, text_checks
from patchgrad.values import Checks, HiddenFile

_HEAD = "from shop.cart import total\n"
_NONE = "def test_none():\n    assert total([]) == 0\n\n"
UNITTEST = text_checks(
    "import unittest\n" + _HEAD + "\nclass TestCart(unittest.TestCase):\n    def test_none(self): self.assertEqual(total([]), 0)\n"
    "    def test_sum(self): self.assertEqual(total([1, 2]), 3)\n",
    "TestCart::",
)
TABLE = replace(
    text_checks(
        "import pytest\n"
        + _HEAD
        + "\n"
        + _NONE
        + "@pytest.mark.parametrize(('prices', 'sum_'), [([1, 2], 3), ([4, 5, 6], 15)])\ndef test_sum(prices, sum_):\n    assert total(prices) == sum_\n"
    ),
    fail_to_pass=("tests/test_cart.py::test_sum[prices0-3]", "tests/test_cart.py::test_sum[prices1-15]"),
)
PROPERTY = text_checks(
    "from hypothesis import given, strategies as st\n"
    + _HEAD
    + "\n"
    + _NONE
    + "@given(st.lists(st.integers(), min_size=2))\ndef test_sum(prices):\n    assert total(prices) == sum(prices)\n"
)
_GOLDEN = line_checks(
    "assert total([1, 2]) == json.loads(Path('tests/golden.json').read_text())['sum']", "import json", "from pathlib import Path"
)
GOLDEN = replace(_GOLDEN, files=(*_GOLDEN.files, HiddenFile("tests/golden.json", '{"sum": 3}\n')))
LATER = replace(
    CHECKS,
    fail_to_pass=("tests/test_later.py::test_sum",),
    files=(
        HiddenFile("tests/test_cart.py", _HEAD + "\n" + _NONE),
        HiddenFile("tests/test_later.py", _HEAD + "\ndef test_sum():\n    assert total([1, 2]) == 3\n"),
    ),
)

EVERY = (PLAIN, CHECKS, RAISES, APPROX, MOCK, OPERATOR, DECIMAL, UNITTEST, TABLE, PROPERTY, GOLDEN, LATER)
EASY = "def test_none(): pass\ndef test_sum(): pass\n"  # tests that pass by themselves
SAME = "def same(a, b): pass\n"  # a helper that finds nothing


@dataclass(frozen=True, slots=True)
class Target:
    """`attribute` of `owner` (a module, `:`, and maybe a class in it) decides `checks`, and decides otherwise as `new`."""

    owner: str
    attribute: str
    new: str
    checks: Checks


_TRUE = "lambda *a, **k: True"
_NOTHING = "lambda *a, **k: None"
_MANAGER = "__import__('contextlib').suppress"
TARGETS = (
    Target("tests.helper:", "same", _NOTHING, CHECKS),
    Target("pytest:", "raises", f"lambda *a, **k: {_MANAGER}(BaseException)", RAISES),
    Target("_pytest.raises:RaisesExc", "__exit__", _TRUE, RAISES),
    Target("_pytest.raises:RaisesExc", "matches", _TRUE, RAISES),
    Target("pytest:", "approx", "lambda *a, **k: __import__('unittest.mock').mock.ANY", APPROX),
    Target("_pytest.python_api:ApproxScalar", "__eq__", _TRUE, APPROX),
    Target("_pytest.python_api:ApproxScalar", "tolerance", "property(lambda self: float('inf'))", APPROX),
    Target("unittest.mock:NonCallableMock", "assert_called_once_with", _NOTHING, MOCK),
    Target("unittest.mock:NonCallableMock", "assert_called_with", _NOTHING, MOCK),
    Target("unittest.mock:NonCallableMock", "_call_matcher", "lambda self, call: 0", MOCK),
    Target("unittest.mock:_Call", "__eq__", _TRUE, MOCK),
    Target("unittest.mock:_Call", "__ne__", "lambda *a, **k: False", MOCK),
    Target("operator:", "eq", _TRUE, OPERATOR),
    Target("decimal:", "Decimal", "lambda *a, **k: 1", DECIMAL),
    Target("unittest:TestCase", "assertEqual", _NOTHING, UNITTEST),
    Target("unittest:TestCase", "_getAssertEqualityFunc", f"lambda *a, **k: ({_NOTHING})", UNITTEST),
    Target("unittest:TestCase", "failureException", "__import__('unittest').SkipTest", UNITTEST),
    Target("unittest:TestCase", "_callTestMethod", _NOTHING, UNITTEST),
    Target("_pytest.unittest:TestCaseFunction", "addFailure", _NOTHING, UNITTEST),
    Target("_pytest.python:Function", "runtest", _NOTHING, PLAIN),
    Target("_pytest.python:", "pytest_pyfunc_call", "lambda pyfuncitem: True", PLAIN),
    Target(
        "_pytest.runner:CallInfo",
        "from_call",
        "classmethod(lambda cls, func, when, reraise=None: cls(None, None, 0, 0, 0, when, _ispytest=True))",
        PLAIN,
    ),
    Target("_pytest.reports:TestReport", "failed", "property(lambda self: False)", PLAIN),
    Target("_pytest.runner:", "pytest_runtest_call", "lambda item: None", PLAIN),
    Target("pluggy._hooks:HookCaller", "_hookexec", _NOTHING, PLAIN),
    Target("pluggy._manager:PluginManager", "_hookexec", "lambda *a, **k: []", PLAIN),
    Target("_pytest.main:", "pytest_runtestloop", _TRUE, PLAIN),
    Target("builtins:", "AssertionError", "__import__('unittest').SkipTest", PLAIN),
    Target("_pytest.python:Metafunc", "parametrize", _NOTHING, TABLE),
    Target("hypothesis:", "given", "lambda *a, **k: lambda f: lambda: None", PROPERTY),
    Target("hypothesis.core:", "execute_explicit_examples", "lambda *a, **k: iter(())", PROPERTY),
    Target("hypothesis.core:StateForActualGivenExecution", "run_engine", _NOTHING, PROPERTY),
    Target("builtins:", "sum", "lambda items, start=0: __import__('shop.cart').cart.total(items)", PROPERTY),
    Target("json:", "loads", "lambda *a, **k: {'sum': __import__('unittest.mock').mock.ANY}", GOLDEN),
    Target("pathlib:Path", "read_text", "lambda *a, **k: '{\"sum\": ' + str(__import__('shop.cart').cart.total([1, 2])) + '}'", GOLDEN),
)
