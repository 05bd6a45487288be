"""What a stage may combine: what earlier weights have sampled needs a ratio to it, and attempts that begin anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchgrad.errors import ConfigError
from patchgrad.recipes.loss import ImportanceCorrection, LossChoice
from patchgrad.recipes.stage import Replay, Stage, StageSampling, Start

EARLIER: list[tuple[str, dict[str, Any]]] = [
    ("sampling.lag is 2", {"sampling": StageSampling(lag=2)}),
    ("replay.groups is 3", {"replay": Replay(groups=3)}),
    ("sampling.lag is 1 and replay.groups is 1", {"sampling": StageSampling(lag=1), "replay": Replay(groups=1)}),
]


@pytest.mark.parametrize(("told", "given"), EARLIER)
def test_what_earlier_weights_have_sampled_needs_a_ratio_to_it(told: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{told}, so earlier weights have sampled what is trained: take an objective with a ratio"):
        Stage(algorithm="reinforce", **given)
    with pytest.raises(ConfigError, match=f"^{told}, so earlier weights"):
        Stage(loss=LossChoice(old="recomputed"), **given)
    Stage(algorithm="dapo", **given)
    Stage(loss=LossChoice(old="recomputed", correction=ImportanceCorrection(truncate_token=2.0)), **given)


@pytest.mark.parametrize(("told", "given"), EARLIER)
def test_what_earlier_weights_have_sampled_begins_at_the_beginning(told: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{told}, and forks and prefixes begin in attempts that have ended"):
        Stage(start=Start(at="prefixes"), **given)


@pytest.mark.parametrize("given", [{"groups": -1}, {"age": 0}, {"uses": 0}, {"alpha": 1.5}, {"beta": -0.1}, {"ess": float("nan")}])
def test_a_replay_that_means_nothing_is_refused_by_its_name(given: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"^replay.{next(iter(given))} is "):
        Replay(**given)  # type: ignore[arg-type]


def test_the_rate_of_a_stage_rises_over_its_first_iterations_and_falls_to_its_end() -> None:
    steady = Stage(lr=2.0, iterations=4)
    assert [steady.rate(one) for one in range(4)] == [2.0] * 4
    falling = replace(steady, decay=1.0)
    assert [falling.rate(one) for one in range(4)] == [2.0, 1.5, 1.0, 0.5]
    rising = replace(falling, warmup=2)
    assert [rising.rate(one) for one in range(4)] == [1.0, 1.5, 1.0, 0.5]
    with pytest.raises(ConfigError, match="a stage's warmup is -1; it must be at least 0"):
        replace(steady, warmup=-1)
