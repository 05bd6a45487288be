"""Draws docs/images/first-run.svg, which moves by itself, from docs/recording/first-run.cast: python docs/recording/draw.py

Each row of the picture is a window on a strip with all that was seen in this row. CSS alone moves the strips, in the time of the
recording, so the picture needs no script and no server. A reader who wants less motion sees the last screen. The same recording gives the
same picture, byte for byte. pyte emulates the terminal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte

DOCS = Path(__file__).resolve().parents[1]
CAST, PICTURE = DOCS / "recording" / "first-run.cast", DOCS / "images" / "first-run.svg"
LABEL = "A terminal in which patchgrad trains, compares what it was with what it became, takes an attempt again and audits the run"
CELL, LINE, EDGE = 8.4, 19, 18  # the width of a character, the height of a row, and the space around all, in pixels
HOLD = 6.0  # seconds that the last screen stays
SHORTEST = 0.08  # screens that follow faster are one frame
pyte.graphics.FG_ANSI[2] = "faint"  # which pyte does not know; nothing that is shown is faint and coloured
STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d0d7de } .time { fill: #0969da; transform-origin: 0 0 } .cursor { fill: #0969da }
.bold { font-weight: 600 } .faint, .brightblack, .black { fill: #6e7781 }
.cyan { fill: #0b6b75 } .green, .brightgreen { fill: #1a7f37 } .red { fill: #cf222e } .brightred { fill: #bf3989 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .card { fill: #161b22; stroke: #30363d } .time, .cursor { fill: #58a6ff }
.faint, .brightblack, .black { fill: #8b949e }
.cyan { fill: #56d4dd } .green, .brightgreen { fill: #3fb950 } .red { fill: #ff7b72 } .brightred { fill: #f778ba }
}
"""
COLOURS = frozenset({"default", "faint", "black", "brightblack", "cyan", "green", "brightgreen", "red", "brightred"})
Screen = tuple[str, ...]


def frames(cast: str) -> tuple[list[tuple[float, Screen]], Mapping[str, Any]]:
    """Each screen that was seen and when, and the header of the recording."""
    header, *events = map(json.loads, cast.splitlines())
    screen = pyte.Screen(header["width"], header["height"])
    stream = pyte.Stream(screen)
    seen = list[tuple[float, Screen]]()
    for at, _, text in events:
        stream.feed(text)
        shown = tuple(row(screen, number) for number in range(screen.lines))
        if seen and at - seen[-1][0] < SHORTEST:
            seen[-1] = (seen[-1][0], shown)
        elif not seen or shown != seen[-1][1]:
            seen.append((at, shown))
    return seen, header


def row(screen: Any, number: int) -> str:
    """A row of the screen: a text for each stretch that looks alike, and the cursor."""
    cells = [screen.buffer[number][column] for column in range(screen.columns)]
    parts = [span(column, text, classes) for column, text, classes in stretches(cells)]
    if number == screen.cursor.y and not screen.cursor.hidden:
        parts.insert(0, f'<rect class="cursor" x="{screen.cursor.x * CELL:.1f}" y="1" width="{CELL}" height="{LINE - 2}"/>')
    return "".join(parts)


def stretches(cells: Sequence[Any]) -> Iterator[tuple[int, str, str]]:
    """Where each begins, its text and its classes. It ends at two spaces, which a picture would show as one."""
    column = 0
    for (colour, bold), alike in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in alike)
        if colour not in COLOURS:
            raise ValueError(f"no colour is chosen for {colour}")
        classes = " ".join(["bold"] * bold + [colour] * (colour != "default"))
        yield from ((column + words.start(), words[0], classes) for words in re.finditer(r"\S+(?: \S+)*", text))
        column += len(text)


def span(column: int, text: str, classes: str) -> str:
    """A text at its column, as wide as its characters are in a terminal, whatever font the reader has."""
    named = f' class="{classes}"' if classes else ""
    wide = f' textLength="{len(text) * CELL:.1f}"' if len(text) > 1 else ""
    return f'<text x="{column * CELL:.1f}" y="14"{wide}{named}>{escape(text, quote=False)}</text>'


def drawn(cast: str) -> str:
    """The picture: a card, a strip for each row, and a line that grows with the time."""
    seen, header = frames(cast)
    width, height = round(header["width"] * CELL) + 2 * EDGE, header["height"] * LINE + 2 * EDGE
    length = seen[-1][0] + HOLD
    strips = [strip(number, [(at / length, screen[number]) for at, screen in seen]) for number in range(header["height"])]
    moved = [
        f"g {{ animation: {length:.3f}s step-end infinite }} .time {{ animation: time {length:.3f}s linear infinite }}",
        f"@keyframes time {{ from {{ transform: scaleX(0) }} {percent(1 - HOLD / length)}, to {{ transform: scaleX(1) }} }}",
        *(style for style, _ in strips),
        "@media (prefers-reduced-motion: reduce) { svg g, .time { animation: none } }",
    ]
    size = f'viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{LABEL}">',
        f"<metadata>{digest(cast)}</metadata>",
        f"<style>{STYLE}" + "\n".join(moved) + "</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        *(
            f'<svg x="{EDGE}" y="{EDGE + number * LINE}" width="{width - EDGE}" height="{LINE}">{rows}</svg>'
            for number, (_, rows) in enumerate(strips)
        ),
        f'<svg x="{EDGE}" y="{height - 7}"><rect class="time" width="{width - 2 * EDGE}" height="2"/></svg>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def strip(number: int, seen: Sequence[tuple[float, str]]) -> tuple[str, str]:
    """How the strip of a row is moved, and what is on it, one below the other: each content once."""
    places = {shown: at for at, shown in enumerate(dict.fromkeys(shown for _, shown in seen))}
    moves = {shown: f"transform:translateY({-LINE * place}px)" for shown, place in places.items()}
    changes = [next(alike) for _, alike in groupby(seen, key=lambda one: one[1])]
    steps = "".join(f"{percent(at)}{{{moves[shown]}}}" for at, shown in changes)
    style = f"@keyframes r{number}{{{steps}}}#r{number}{{animation-name:r{number};{moves[changes[-1][1]]}}}"
    rows = "".join(f'<svg y="{LINE * place}">{shown}</svg>' for shown, place in places.items() if shown)
    return style, f'<g id="r{number}">{rows}</g>'


def percent(share: float) -> str:
    """A share of the time, as CSS has it."""
    return f"{100 * share:.3f}%"


def digest(cast: str) -> str:
    """What the picture says of the recording that it was made from."""
    return f"sha256 {hashlib.sha256(cast.encode()).hexdigest()}"


if __name__ == "__main__":
    PICTURE.write_text(drawn(CAST.read_text()))
