"""The table of what was trained: read as it was written, one attempt at a time, and gone by a sentence where it is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchgrad.errors import StoreError
from patchgrad.store import Run
from patchgrad.store.trained import NUMBERS
from patchgrad.values import TrainedTurn, floats

number = st.floats(-50, 50, width=32) | st.just(float("nan"))
turn = st.builds(
    lambda attempt, turn, update, rows: TrainedTurn(
        attempt, turn, update, update + 7, *(floats(list(part)) for part in (zip(*rows, strict=True) if rows else [()] * 5))
    ),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(0, 3),
    st.lists(st.tuples(number, number, number, number, number), max_size=5),
)


def plain(turns: list[TrainedTurn]) -> list[list[object]]:
    names = ("attempt", "turn", "update", "version")
    return [[*(getattr(one, name) for name in names), *(repr(getattr(one, name).tolist()) for name in NUMBERS)] for one in turns]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(turn, max_size=6))
def test_turns_are_read_as_they_were_written(turns: list[TrainedTurn], tmp_path_factory: pytest.TempPathFactory) -> None:
    with Run.create(tmp_path_factory.mktemp("run") / "one", "") as run:
        run.trained.write("stage1", 3, turns)
        assert plain(run.trained.read("stage1", 3)) == plain(turns)
        for attempt in {one.attempt for one in turns}:
            assert plain(run.trained.read("stage1", 3, attempt)) == plain([one for one in turns if one.attempt == attempt])


def test_a_phase_in_which_nothing_was_kept_has_no_turns(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        assert run.trained.read("stage1", 0) == []
        assert run.trained.files() == []


def test_the_table_is_part_of_what_a_commit_rests_on(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        run.trained.write("stage1", 0, [TrainedTurn("a", 1, 0, 1, *[floats([0.5, np.nan])] * 5)])
        run.save_state({"phase": "stage1"})
    (path,) = run.trained.files()
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(StoreError, match="stage1-00000"):
        run.trained.read("stage1", 0)
    with pytest.raises(StoreError, match="stage1-00000"):
        Run.resume(tmp_path / "run")
    path.write_bytes(whole)
    Run.resume(tmp_path / "run").close()


def test_a_token_that_was_not_trained_is_null_for_other_programs(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        run.trained.write("rft", 0, [TrainedTurn("a", 1, 0, 1, *[floats([0.5, np.nan])] * 5)])
    (row,) = pyarrow.parquet.read_table(run.trained.files()[0]).to_pylist()
    assert (row["phase"], row["iteration"], row["advantages"]) == ("rft", 0, [0.5, None])
