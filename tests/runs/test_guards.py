"""Guard-rails: what is bad is told, and what is bad for long or at once ends the run with a reason."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.config import dumps, loads
from patchgrad.errors import ConfigError
from patchgrad.recipes.bounds import Bound, Guards
from patchgrad.runs.guards import AT_ONCE, MEANING, Watch, alarms, figures, fruitless

FIGURES = [one.name for one in fields(Guards) if isinstance(getattr(Guards(), one.name), Bound)]
HEALTHY = {"logprob_diff": 1e-6, "sampling_z": -0.4, "ratio": 0.01, "clip_low": 0.02, "clip_high": 0.05, "entropy": 0.3, "ess": 0.97}


def test_a_healthy_run_raises_no_alarm() -> None:
    watch = Watch(Guards())
    assert watch.see(HEALTHY | {"no_contrast": 0.5, "limited": 0.3, "looping": 0.05, "broken": 0.0}) == ([], "")


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-20, 20))
def test_stop_lies_beyond_warn_on_whichever_side(warn: float, stop: float, value: float) -> None:
    if warn == stop:
        return
    level = Bound(warn, stop).crossed(value)
    beyond = [(value > bound) if stop > warn else (value < bound) for bound in (warn, stop)]
    assert level == ("stop" if beyond[1] else "warn" if beyond[0] else "")


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_warns_and_stops_and_says_what_it_means(figure: str) -> None:
    bound = getattr(Guards(), figure)
    far = bound.stop + (bound.stop - bound.warn)
    (alarm,) = alarms(Guards(), {figure: far})
    assert alarm.level == "stop"
    assert alarm.sentence.startswith(f"{figure} is ")
    assert alarm.sentence.endswith(MEANING[figure])
    (alarm,) = alarms(Guards(), {figure: (bound.stop + bound.warn) / 2})
    assert alarm.level == "warn"
    (alarm,) = alarms(Guards(), {figure: math.nan})
    assert alarm.level == "stop", "what is not a number is worse than any number"


def test_a_run_is_fruitless_where_every_iteration_says_that_it_made_no_update() -> None:
    idle, busy = {"phase": "rft", "updates": 0}, {"phase": "stage1", "updates": 2}
    assert fruitless(Guards(), [idle, idle]).endswith("(2 of 2 iterations)")
    assert not fruitless(Guards(), [idle, busy])
    assert not fruitless(Guards(), [idle, {"phase": "rft"}]), "a record of an older run does not say"
    assert not fruitless(Guards(), []), "a warm-up alone"
    assert not fruitless(Guards(idle=Bound(0.5, 2.0)), [idle])


def test_a_tendency_ends_a_run_when_it_stays_and_a_fault_at_once() -> None:
    watch = Watch(Guards(patience=3))
    reasons = [watch.see({"entropy": value})[1] for value in (0.0001, 0.0001, 0.5, 0.0001, 0.0001, 0.0001)]
    assert [bool(reason) for reason in reasons] == [False, False, False, False, False, True]
    assert reasons[-1] == "entropy is 0.0001, below 0.001: the policy hardly explores any more (3 iterations in a row)"
    for figure in AT_ONCE:
        bound = getattr(Guards(), figure)
        assert Watch(Guards(patience=3)).see({figure: 2 * bound.stop})[1]


def test_a_resumed_run_goes_on_counting() -> None:
    watch = Watch(Guards(patience=2), [{"limited": 0.2}, {"limited": 1.0}])
    assert watch.see({"limited": 1.0})[1]
    assert not Watch(Guards(patience=2), [{"limited": 1.0}, {"limited": 0.2}]).see({"limited": 1.0})[1]


def test_guards_are_part_of_a_recipe_s_file() -> None:
    changed = Guards(entropy=Bound(0.1, 0.05), patience=4)
    assert loads(Guards, dumps(changed)) == changed


def test_bounds_that_say_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="must lie beyond `warn`"):
        Bound(0.1, 0.1)
    with pytest.raises(ConfigError, match="patience is 0"):
        Guards(patience=0)


def test_the_figures_are_those_of_an_iteration_s_record() -> None:
    row = {
        "phase": "stage1",
        "ratio": 0.7,
        "ess": 0.9,
        "contrast": 0.25,
        "probe_logprob_diff": 2e-6,
        "entropy": 0.3,
        "sampling_z": -1.0,
        "kl1": 3.0,
    }
    expected = {"no_contrast": 0.75, "logprob_diff": 2e-6, "entropy": 0.3, "sampling_z": -1.0}
    assert figures(row) == {**expected, "ratio": pytest.approx(0.3), "ess": 0.9}
    assert figures({**row, "phase": "rft"}) == expected, "fine-tuning is to move the policy"
    drifting = {**row, "logprob_diff": 0.2, "steps": [{"logprob_diff": 3e-6}, {"logprob_diff": 0.4}]}
    assert figures(drifting)["logprob_diff"] == 3e-6, "what the first step has moved is no fault of the sampler"
    for earlier in ({"staleness_max": 1.0}, {"replay": [{"iteration": 0}]}):
        assert figures({**drifting, **earlier})["logprob_diff"] == 2e-6, "what earlier weights have sampled differs by what was learned"
    assert figures({"phase": "rft", "contrast": None, "episodes": 0}) == {}


def test_the_guide_tells_every_bound() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "algorithms.md").read_text().partition("## Guards")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in guide.splitlines() if line.startswith("| `")]
    told = {name: (float(row[1]), float(row[2])) for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert told == {name: (getattr(Guards(), name).warn, getattr(Guards(), name).stop) for name in FIGURES}


def test_a_run_that_learns_nothing_ends_after_half_of_the_patience() -> None:
    watch = Watch(Guards(patience=5))
    rows = [{"phase": "rft", "updates": updates} for updates in (0, 3, 0, 0, 0)]
    reasons = [watch.see(figures(row))[1] for row in rows]
    assert [bool(reason) for reason in reasons] == [False, False, False, False, True]
    assert "no update was made" in reasons[-1]
    assert "idle" not in figures({"phase": "rft"}), "a record of an older run does not say"
