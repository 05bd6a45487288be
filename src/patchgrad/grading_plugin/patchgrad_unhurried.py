"""Tests of properties are judged by what they find, and not by the clock.

hypothesis fails a test of which one example takes more than 200 ms, or whose examples take long to draw. On a busy machine either happens
to an honest attempt. hypothesis itself has no such limit where it finds that it runs in continuous integration. A deadline that a test
names itself stays.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_KEPT = "_hypothesis_internal_use_settings"  # of a test, which asks for it when it is run


def unhurry(tests: Iterable[object]) -> None:
    """Take the usual deadline from these functions and methods, as far as they are tests of properties."""
    found = vars(sys.modules.get("hypothesis", sys))
    if "settings" not in found:
        return
    settings, slow = found["settings"], found["HealthCheck"].too_slow
    for test in (inner for one in tests for inner in _layers(one)):
        with contextlib.suppress(Exception):  # another version of hypothesis; the test is then as it was
            known = vars(test)[_KEPT]
            if known.deadline == settings.get_profile("default").deadline:
                calm = {*known.suppress_health_check, slow}
                setattr(test, _KEPT, settings(known, deadline=None, suppress_health_check=list(calm)))


def _layers(test: Any) -> Iterator[Any]:
    """The function of a test, and those that it was made of by decorators."""
    test = getattr(test, "__func__", test)
    while test is not None:
        yield test
        test = getattr(test, "__wrapped__", None)
