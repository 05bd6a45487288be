"""Runs that an older version wrote open, under the names of today."""

from __future__ import annotations

import json
from pathlib import Path

from patchgrad.store import Run


def test_a_run_of_format_3_is_read_and_gone_on_with_under_the_names_of_today(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "") as run:
        run.save_state({"position": 1})
    about = tmp_path / "run" / "run.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 3}))
    row = {"phase": "stage1", "iteration": 0, "gap": 1e-6, "surprise": -0.5, "probe_gap": 2e-6, "steps": [{"gap": 1e-6, "effective": 0.9}]}
    with Run.resume(tmp_path / "run") as run:
        run.results.write_metrics(row)
        (told,) = run.results.metrics()
    assert told == {
        "phase": "stage1",
        "iteration": 0,
        "logprob_diff": 1e-6,
        "sampling_z": -0.5,
        "probe_logprob_diff": 2e-6,
        "steps": [{"logprob_diff": 1e-6, "ess": 0.9}],
    }


def test_what_a_turn_is_stored_as_keeps_its_older_names(tmp_path: Path) -> None:
    """An address is a hash over stored names, so that of an older turn would change with them."""
    from tests.store.test_store import turn

    from patchgrad.store import plain

    stored = plain(turn(0))
    assert "place" in stored["observation"]
    assert "tool_state" not in stored["observation"]
