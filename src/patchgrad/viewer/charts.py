"""Small charts as SVG text: lines with error bands over iterations, and stacked bars. Colours are CSS variables of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 440, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 10, 30
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: `values[i]` belongs to iteration i, `None` where it was not measured; `errors` draw the band.

    A gap stays a gap unless the points are `joined`, as those of what is measured now and then.
    """

    name: str
    values: Sequence[float | None]
    errors: Sequence[float | None] = ()
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of iterations, from `start` on, under one name."""

    name: str
    start: int


def nice(top: float) -> tuple[float, float]:
    """The axis above a value: its end and its step, both round; `nice(0.37) == (0.4, 0.1)`."""
    if not top > 0:
        return 1.0, 0.5
    raw = top / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in STEPS if unit * factor >= raw * (1 - 1e-9))
    return step * math.ceil(top / step - 1e-9), step


def lines(series: Sequence[Series], phases: Sequence[Phase], percent: bool) -> str:
    """A line chart; a run of measured values is one path, so that a gap stays a gap."""
    count = max(len(one.values) for one in series)
    peak = max((v + _at(one.errors, i) for one in series for i, v in enumerate(one.values) if v is not None), default=1.0)
    low = min((v for one in series for v in one.values if v is not None), default=0.0)
    top, step = nice(min(peak, 1.0) if percent else peak)
    floor = 0.0 if low >= 0 else -nice(-low)[0]
    inner = WIDTH - LEFT - RIGHT

    def x(i: float) -> float:
        return LEFT + inner * (i + 0.5) / count

    def y(v: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (min(max(v, floor), top) - floor) / (top - floor)

    parts = []
    tick = floor
    while tick <= top + step / 2:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        label = f"{100 * tick:.4g} %" if percent else f"{tick:.4g}"
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">{label}</text>')
        tick += step
    parts += _phases(phases, count, inner)
    for number, one in enumerate(series, 1):
        parts += _line(one, number, x, y)
    name = escape(", ".join(one.name for one in series))
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _at(errors: Sequence[float | None], i: int) -> float:
    return (errors[i] or 0.0) if i < len(errors) else 0.0


def _phases(phases: Sequence[Phase], count: int, inner: float) -> list[str]:
    parts = []
    ends = [*(phase.start for phase in phases[1:]), count]
    for phase, end in zip(phases, ends, strict=True):
        left, right = LEFT + inner * phase.start / count, LEFT + inner * end / count
        if phase.start:
            parts.append(f'<line class="border" x1="{left:.1f}" x2="{left:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM + 14}"/>')
        if right - left > 6.2 * len(phase.name):
            middle = (left + right) / 2
            parts.append(f'<text class="tick" x="{middle:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(phase.name)}</text>')
    return parts


def _line(one: Series, number: int, x: object, y: object) -> list[str]:
    assert callable(x)
    assert callable(y)
    parts = []
    measured = [i for i, value in enumerate(one.values) if value is not None]
    for run in [measured] if one.joined and measured else _runs(one.values):
        if any(_at(one.errors, i) for i in run):
            upper = [f"{x(i):.1f},{y((one.values[i] or 0) + _at(one.errors, i)):.1f}" for i in run]
            lower = [f"{x(i):.1f},{y((one.values[i] or 0) - _at(one.errors, i)):.1f}" for i in reversed(run)]
            parts.append(f'<polygon class="band c{number}" points="{" ".join(upper + lower)}"/>')
        points = " ".join(f"{x(i):.1f},{y(one.values[i]):.1f}" for i in run)
        parts.append(f'<polyline class="line c{number}" points="{points}"/>')
        for i in run:
            label = escape(f"{one.name}: {one.values[i]:.4g}")
            parts.append(
                f'<circle class="dot c{number}" cx="{x(i):.1f}" cy="{y(one.values[i]):.1f}" r="2.2"><title>{label}</title></circle>'
            )
    return parts


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    for i, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(i)
    return [run for run in runs if run]


def bar(parts: Mapping[str, float], kinds: Sequence[str], width: float = 1.0) -> str:
    """One stacked bar, `width` of the whole line long; the colour of a part is its place in `kinds`."""
    total = sum(parts.values())
    if total <= 0:
        return '<div class="bar"></div>'
    pieces = "".join(
        f'<i class="c{kinds.index(kind) + 1}" style="width:{100 * width * parts[kind] / total:.2f}%" '
        f'title="{escape(kind)}: {100 * parts[kind] / total:.0f} %"></i>'
        for kind in kinds
        if parts.get(kind, 0) > 0
    )
    return f'<div class="bar">{pieces}</div>'


def legend(names: Sequence[str]) -> str:
    """What the colours mean, in order."""
    return '<p class="legend">' + "".join(f'<span><i class="c{i}"></i>{escape(name)}</span>' for i, name in enumerate(names, 1)) + "</p>"
