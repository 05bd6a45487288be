"""What a person sees while a run goes on."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.viewer.synthetic import policy

from patchgrad.contracts import Tracker
from patchgrad.evaluation import lines
from patchgrad.runs.trackers.fitting import blocks, ended, going_on, shortened
from patchgrad.runs.trackers.tally import Tally
from patchgrad.runs.trackers.terminal import Live, Plain, Silent, choose
from patchgrad.values import Advanced, Evaluated, Note, PhaseBegan, Report


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


def names_of(reports: int) -> tuple[Report, ...]:
    return tuple(policy(f"+ stage {number} RL", 0.126 * number, 0.33, 0.55, 5.4, 101.6) for number in range(1, reports + 1))


@given(st.integers(40, 120), st.integers(1, 5))
def test_a_table_fits_the_terminal_and_every_figure_is_on_it_once_and_whole(width: int, reports: int) -> None:
    table = lines(names_of(reports))
    shown = [line for block in blocks(table, width) for line in block]
    assert max(map(len, shown)) <= width
    for headings, *rows in [[re.split(r"  +", line.strip()) for line in block] for block in blocks(table, width)]:
        assert all(len(row) == len(headings) for row in rows)
    cells = sorted(cell for line in shown for cell in re.split(r"  +", line.strip())[1:])
    assert cells == sorted(cell.strip() for row in table for cell in row[1:])


figures = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=12), st.one_of(st.booleans(), st.floats(0, 1e9), st.text("abc ", max_size=50)), max_size=9
)


@given(st.integers(40, 120), st.text("abc 0123", min_size=1, max_size=60), st.integers(1, 10**6), figures)
def test_progress_fits_the_terminal_and_no_number_is_cut(width: int, name: str, total: int, facts: dict[str, bool | float | str]) -> None:
    tally = Tally(name, total)
    tally.add(total // 2, facts)
    going = going_on(tally, width)
    parts = filter(None, [going.name, "=" * going.bar, *going.figures, going.beside])
    shown = [going.above, "  ".join(parts), *going.below]
    assert all(len(line) <= width for line in (*shown, *ended(tally, width)))
    assert f"{total // 2}/{total}" in going.figures
    numbers = [part for part, fact in zip(sorted(tally.parts), sorted(facts), strict=True) if not isinstance(facts[fact], str)]
    for number in numbers:
        assert any(number in line for line in shown)
        assert any(number in line for line in ended(tally, width))


def test_a_text_that_is_shortened_ends_before_a_number_that_has_no_room() -> None:
    assert shortened("the agent", 5) == "the …"
    assert [shortened("of 4800 turns", width) for width in (13, 9, 8, 7, 6, 4)] == ["of 4800 turns", "of 4800 …", "of 4800…", *["of …"] * 3]


SHOWN = """
import os, time
from tests.runs.test_terminal import names_of
from patchgrad.runs.trackers.terminal import choose
from patchgrad.values import Advanced, Evaluated, Note, PhaseBegan
facts = {"solved": True, "submitted": False, "turns": 7.5, "reward": 0.125, "sampled": 123456}
with choose(quiet=False) as tracker:
    tracker.event(PhaseBegan("rejection fine-tuning", 4))
    tracker.event(Advanced(4, facts))
    tracker.event(Evaluated(names_of(3)))
    tracker.event(PhaseBegan("stage 1, iteration 12 of 48", 1200))
    tracker.event(Advanced(431, facts))
    tracker.event(Note("the agent opens a file that has a very long name and then looks at all of its lines"))
    time.sleep(0.6)
    os.write(1, b"\\x1b]0;now\\x07")
"""


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_terminal_of_that_size_shows_whole_figures(width: int) -> None:
    """What a real pseudo-terminal got, as an emulator draws it at the moment that the program names."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    around = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"TERM": "xterm-256color"}
    around["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen([sys.executable, "-c", SHOWN], stdin=slave, stdout=slave, stderr=slave, env=around)
    os.close(slave)
    written = b""
    with suppress(OSError):  # which a terminal whose program has ended answers with
        while chunk := os.read(master, 1 << 16):
            written += chunk
    os.close(master)
    assert process.wait() == 0, written
    screen = pyte.Screen(width, 40)
    pyte.ByteStream(screen).feed(written[: written.index(b"\x1b]0;now")])
    shown = [line.rstrip() for line in screen.display if line.strip()]
    text = "\n".join(shown)
    assert "431/1200" in text
    for figure in (
        "iteration 12 of 48",
        "37.8 ± ",
        "101.6",
        "solved 100 %",
        "submitted 0 %",
        "turns 7.5",
        "reward 0.125",
        "sampled 123,456",
        "0:00",
        "left",
    ):
        assert figure in text
    assert shown[-1].startswith("the agent opens a file")
