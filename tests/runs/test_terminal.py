"""What a person sees while a run goes on."""

from __future__ import annotations

import io
import sys
import time

import pytest
from rich.console import Console
from tests.viewer.synthetic import policy

from patchgrad.contracts import Tracker
from patchgrad.runs.trackers.tally import Tally
from patchgrad.runs.trackers.terminal import Live, Plain, Silent, choose
from patchgrad.values import Advanced, Evaluated, Note, PhaseBegan


def drive(tracker: Tracker) -> None:
    tracker.event(PhaseBegan("rft", 4))
    for solved in (True, False, False, True):
        tracker.event(Advanced(1, {"solved": solved, "turns": 7}))
        tracker.event(Note("clamp:\nreplace a -> solved"))
    tracker.event(Evaluated((policy("base", 0.126, 0.33, 0.55, 5.4, 1.6), policy("+ RFT", 0.241, 0.47, 0.71, 6.0, 1.7))))
    tracker.event(PhaseBegan("after", 0))
    tracker.event(Advanced(0))


def test_a_bool_is_a_share_and_a_number_is_the_latest() -> None:
    tally = Tally("rft", 4)
    tally.add(1, {"solved": True, "turns": 7})
    assert tally.left().endswith(" left")
    tally.add(1, {"solved": False, "turns": 9, "note": "x"})
    assert tally.facts == "solved 50 %, turns 9, note x"
    tally.add(2, {})
    assert tally.left() == ""


def test_a_log_gets_a_line_at_the_start_and_at_the_end_of_a_stage() -> None:
    stream = io.StringIO()
    with Plain(stream) as tracker:
        tracker.event(Advanced())
        drive(tracker)
    assert stream.getvalue().splitlines()[:4] == [
        "rft",
        "  4/4 · solved 50 %, turns 7 · clamp: replace a -> solved",
        "policy      Pass@1          95 %      Pass@k  submitted  turns  minutes",
        "base    12.6 ± 2.1   8.4 to 16.8  33.0 (k=4)       55 %    5.4      1.6",
    ]


def test_a_log_gets_lines_in_between_when_time_has_passed() -> None:
    stream = io.StringIO()
    drive(Plain(stream, every=0.0))
    lines = stream.getvalue().splitlines()
    assert lines[1].startswith("  1/4 · solved 100 %, turns 7 · 0:00 left")
    assert lines[2].endswith(" · clamp: replace a -> solved")


def test_the_live_display_shows_the_stage_its_facts_and_the_table() -> None:
    stream = io.StringIO()
    with Live(Console(file=stream, force_terminal=True, width=120, color_system=None)) as tracker:
        drive(tracker)
        tracker.event(PhaseBegan("stage 1", 10))
        tracker.event(Advanced(1, {"solved": True}))
        tracker.event(Note("the agent opens a file"))
        time.sleep(0.5)
    text = stream.getvalue()
    for part in ("✓ rft  solved 50 %, turns 7", "12.6 ± 2.1", "stage 1", "1/10", "the agent opens a file"):
        assert part in text


def test_a_line_that_stays_is_told_whatever_follows_it_at_once() -> None:
    stream = io.StringIO()
    with Plain(stream) as tracker:
        tracker.event(PhaseBegan("choose a policy", 2))
        tracker.event(Note("stage 1 hands on\nstage1-3", stays=True))
        tracker.event(PhaseBegan("stage 2", 4))
    assert stream.getvalue().splitlines() == ["choose a policy", "  stage 1 hands on stage1-3", "stage 2"]


def test_a_line_that_stays_stands_above_the_live_display() -> None:
    stream = io.StringIO()
    with Live(Console(file=stream, force_terminal=True, width=120, color_system=None)) as tracker:
        tracker.event(PhaseBegan("choose a policy", 2))
        tracker.event(Note("stage 1 hands on [stage1-3]", stays=True))
        tracker.event(PhaseBegan("stage 2", 4))
        time.sleep(0.5)
    assert "  stage 1 hands on [stage1-3]\n" in stream.getvalue()


def test_silence_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Silent() as tracker:
        drive(tracker)
    assert capsys.readouterr() == ("", "")


def test_the_way_of_telling_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(choose(quiet=True), Silent)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert isinstance(choose(quiet=False), Plain)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(choose(quiet=False), Live)
