"""The recording in the README is one of real commands, tells nothing about a machine, and its picture is drawn from it."""

from __future__ import annotations

import json
import re
import socket
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from docs.recording import record

PROJECT = Path(__file__).parents[2]
PICTURE = (PROJECT / "docs" / "images" / "first-run.svg").read_text()
TEXT = record.CAST.read_text()
HEADER, *EVENTS = map(json.loads, TEXT.splitlines())
SHOWN = "".join(text for _, _, text in EVENTS)
LONGEST, LARGEST = 130, 600_000


def test_it_is_asciicast_of_at_most_two_minutes_without_long_waits() -> None:
    assert (HEADER["version"], HEADER["width"], HEADER["height"]) == (2, record.COLUMNS, record.ROWS)
    assert all(kind == "o" and isinstance(text, str) for _, kind, text in EVENTS)
    times = [at for at, _, _ in EVENTS]
    assert times[0] == 0
    assert times[-1] <= LONGEST
    assert all(0 <= later - earlier <= record.IDLE + 0.001 for earlier, later in pairwise(times))


def test_it_holds_the_commands_that_the_script_runs() -> None:
    typed = re.findall(r"^\$ (.+)\r$", SHOWN.replace(" \r", ""), re.MULTILINE)  # which is how a line goes on below
    told = [re.sub(r"\bstage2/\S+", record.ATTEMPT, command) for command in typed]
    assert told == list(record.COMMANDS)


def test_it_does_not_tell_where_it_was_made() -> None:
    assert re.findall(r"(?<![\w.])/(?:home|mnt|opt|root|tmp|usr|var|work|Users)\b", SHOWN) == []
    assert socket.gethostname() not in TEXT


def test_a_display_that_is_drawn_again_as_it_was_is_waiting() -> None:
    drawn = [(3.0, "a"), (4.0, "a"), (5.0, "a"), (6.0, "b"), (6.25, "c"), (16.0, "d")]
    assert record.hurried(drawn) == [(0.0, "a"), (1.0, "a"), (1.5, "a"), (1.5, "b"), (1.75, "c"), (3.25, "d")]


def test_the_picture_is_of_this_recording_and_the_readme_shows_it() -> None:
    assert sha256(TEXT.encode()).hexdigest() in PICTURE
    assert len(PICTURE) < LARGEST
    told = re.findall(r'aria-label="(.+?)"', PICTURE)
    assert f"![{told[0]}](docs/images/first-run.svg)" in (PROJECT / "README.md").read_text()


def test_the_same_recording_gives_the_same_picture() -> None:
    pytest.importorskip("pyte", reason="pyte is not installed")
    from docs.recording import draw

    assert draw.drawn(TEXT) == PICTURE
