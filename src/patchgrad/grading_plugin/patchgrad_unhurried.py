"""Tests of properties are judged by what they find, and not by the clock.

hypothesis fails a test of which one example takes more than 200 ms, or whose examples take long to draw. On a busy machine either happens
to an honest attempt. hypothesis drops both limits where it finds that it runs in continuous integration. A test that names another
deadline keeps both.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterable
from typing import Any

_KEPT = "_hypothesis_internal_use_settings"  # of a test, which asks for it when it is run


def unhurry(tests: Iterable[Any]) -> None:
    """Take the usual deadline from these functions and methods, as far as they are tests of properties."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is None:
        return
    for test in tests:
        with contextlib.suppress(Exception):  # no test of properties, or another version of hypothesis: the test is as it was
            function: Any = getattr(test, "__func__", test)
            _unhurry(inspect.unwrap(function, stop=lambda layer: _KEPT in vars(layer)), hypothesis)


def _unhurry(test: Any, hypothesis: Any) -> None:
    known = vars(test)[_KEPT]
    if known.deadline == hypothesis.settings.get_profile("default").deadline:
        calm = {*known.suppress_health_check, hypothesis.HealthCheck.too_slow}
        setattr(test, _KEPT, hypothesis.settings(known, deadline=None, suppress_health_check=list(calm)))
