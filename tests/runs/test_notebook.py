"""What a person sees of a run in a notebook."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.runs.test_terminal import drive

from patchgrad.runs.trackers.notebook import Bundle, Notebook, Output
from patchgrad.values import Advanced, Note, PhaseBegan

CELL = """
import threading
from tests.runs.test_terminal import drive
from patchgrad.runs.trackers.terminal import choose

def run():
    with choose(quiet=False) as tracker:
        drive(tracker)

thread = threading.Thread(target=run)  # where a run's loop is, as the notebook's own is in use
thread.start()
thread.join()
"""


def collecting() -> tuple[list[Bundle], Output]:
    """What an output is given, one after the other, and the output."""
    shown: list[Bundle] = []

    def output(bundle: Bundle) -> Any:
        shown.append(bundle)
        return shown.append

    return shown, output


def test_ended_phases_and_the_last_table_stay_and_the_phase_that_goes_on_stands_below_them() -> None:
    shown, output = collecting()
    with Notebook(output, every=0.0) as tracker:
        drive(tracker)
        tracker.event(PhaseBegan("stage <1>", 10))
        tracker.event(Note("a guard\nspeaks", stays=True))
        tracker.event(Advanced(1, {"solved": True}))
        tracker.event(Note("the agent opens a file"))
        going = shown[-1]
    *lines, last = going["text/plain"].splitlines()
    assert [line[:34] for line in lines] == [
        "✓ rft  solved 50 %, turns 7  0:00",
        "  a guard speaks",
        "",
        "policy      Pass@1          95 %  ",
        "base    12.6 ± 2.1   8.4 to 16.8  ",
        "+ RFT   24.1 ± 2.7  18.7 to 29.5  ",
        "",
    ]
    assert last.startswith("stage <1> · 1/10 · solved 100 % · 0:0")
    assert last.endswith(" left · the agent opens a file")
    assert "stage &lt;1&gt;" in going["text/html"]
    assert "\n· stage <1>  solved 100 %" in shown[-1]["text/plain"], "a phase that did not come to its end"


def test_what_is_told_last_is_shown_a_moment_later_without_anything_that_follows() -> None:
    shown, output = collecting()
    tracker = Notebook(output, every=0.2)
    tracker.event(PhaseBegan("rft", 3))
    for number in range(3):
        tracker.event(Advanced(1, {"solved": True}))
        tracker.event(Note(f"attempt {number}"))
    tracker.event(Note("a guard speaks", stays=True))
    time.sleep(1.0)
    assert 2 <= len(shown) <= 4
    assert shown[-1]["text/plain"].splitlines() == ["  a guard speaks", "rft · 3/3 · solved 100 % · attempt 2"]


def test_what_follows_soon_is_shown_together_with_what_comes_next() -> None:
    shown, output = collecting()
    tracker = Notebook(output, every=3600.0)
    tracker.event(PhaseBegan("rft", 100))
    for _ in range(50):
        tracker.event(Advanced(1, {"solved": True}))
    assert len(shown) == 1
    tracker.event(PhaseBegan("stage 1", 100))
    assert len(shown) == 2


def test_a_cell_of_a_real_kernel_has_one_output_that_is_written_anew_in_its_place() -> None:
    manager = pytest.importorskip("jupyter_client.manager", reason="ipykernel is not installed")
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    said: list[Mapping[str, Any]] = []
    try:
        reply = client.execute_interactive(CELL, timeout=120, output_hook=said.append)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply["content"]
    kinds = [one["msg_type"] for one in said if one["msg_type"] not in ("status", "execute_input")]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    shown = [one["content"] for one in said if "display_data" in one["msg_type"]]
    assert len({one["transient"]["display_id"] for one in shown}) == 1
    assert "✓ rft  solved 50 %" in shown[-1]["data"]["text/plain"]
    assert "24.1 ± 2.7" in shown[-1]["data"]["text/html"]
