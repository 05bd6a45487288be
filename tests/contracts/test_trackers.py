"""Every tracker against the contract."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from rich.console import Console

from patchgrad.runs.trackers.notebook import Notebook
from patchgrad.runs.trackers.several import Several
from patchgrad.runs.trackers.terminal import Live, Plain, Silent
from patchgrad.testing import check_tracker
from patchgrad.testing.tracker import EVENTS
from patchgrad.values import Evaluated, Event, Note


class Failing:
    """Fails at its second event."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def event(self, event: Event) -> None:
        self.told.append(event)
        if len(self.told) > 1:
            raise OSError("the disk is full")


class Listening:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def event(self, event: Event) -> None:
        self.told.append(event)


def test_a_silent_tracker_keeps_the_contract() -> None:
    check_tracker(Silent)


@pytest.mark.parametrize("every", [0.0, 1000.0])
def test_lines_for_a_log_keep_the_contract(every: float) -> None:
    check_tracker(lambda: Plain(io.StringIO(), every))
    check_tracker(lambda: Notebook(lambda bundle: print, every))


@pytest.fixture
def live() -> Iterator[Live]:
    with Live(Console(file=io.StringIO(), force_terminal=True, width=80)) as tracker:
        yield tracker


def test_a_live_display_keeps_the_contract_and_can_be_drawn_after_every_event(live: Live) -> None:
    check_tracker(lambda: live)
    console = Console(file=io.StringIO(), width=40)
    for event in EVENTS:
        live.event(event)
        console.print(live._render())


def test_several_keep_the_contract_even_if_all_of_them_fail(caplog: pytest.LogCaptureFixture) -> None:
    check_tracker(lambda: Several([]))
    check_tracker(lambda: Several([Silent(), Failing(), Plain(io.StringIO())]))
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_a_tracker_that_fails_is_told_of_once_and_left_out_and_the_others_hear_everything(caplog: pytest.LogCaptureFixture) -> None:
    before, failing, after = Listening(), Failing(), Listening()
    several = Several([before, failing, after])
    for event in EVENTS:
        several.event(event)
    assert before.told == after.told == list(EVENTS)
    assert failing.told == list(EVENTS[:2])
    assert len(caplog.records) == 1
    assert "the disk is full" in caplog.text


def test_a_tracker_that_takes_some_events_only_is_found_out() -> None:
    class Reading:
        def event(self, event: Event) -> None:
            if isinstance(event, Evaluated):
                print(event.reports[0], file=io.StringIO())
            if isinstance(event, Note):
                event.text.encode()

    with pytest.raises(AssertionError, match="never an exception"):
        check_tracker(Reading)
