"""A picture in SVG of values over attempts, for light and dark pages; the same values give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEFT, RIGHT, TOP, BOTTOM = 58, 20, 66, 52
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #444c56 }
.title { font-weight: 600; font-size: 15px; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d0d7de }
.grid { stroke: #d8dee4; stroke-width: 1 }
.phase { stroke: #8c959f; stroke-width: 1; stroke-dasharray: 3 4 }
polyline, .key { fill: none; stroke-width: 2.2 }
polygon { opacity: .16 }
.a { stroke: #0969da } .a.full { fill: #0969da; stroke: none }
.b { stroke: #bc4c00 } .b.full { fill: #bc4c00; stroke: none }
.c { stroke: #1a7f37 } .c.full { fill: #1a7f37; stroke: none }
.d { stroke: #8250df } .d.full { fill: #8250df; stroke: none }
.e { stroke: #6e7781 } .e.full { fill: #6e7781; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #adbac7 } .title { fill: #e6edf3 }
.card { fill: #161b22; stroke: #30363d } .grid { stroke: #2a313a } .phase { stroke: #6e7681 }
.a { stroke: #58a6ff } .a.full { fill: #58a6ff }
.b { stroke: #f0883e } .b.full { fill: #f0883e }
.c { stroke: #3fb950 } .c.full { fill: #3fb950 }
.d { stroke: #a371f7 } .d.full { fill: #a371f7 }
.e { stroke: #8b949e } .e.full { fill: #8b949e }
}
"""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A plane of `whole` attempts and `most` percent; colours are named `a` to `e`."""

    whole: float
    most: int
    width: int = 760
    height: int = 400

    def x(self, attempts: float) -> float:
        """The place of so many attempts."""
        return LEFT + (self.width - LEFT - RIGHT) * attempts / self.whole

    def y(self, percent: float) -> float:
        """The place of a share in percent."""
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * percent / self.most

    def frame(self, title: str, step: int, phases: Sequence[tuple[str, float, float]]) -> list[str]:
        """The card with its title, a line each `step` percent, and the phases by name, first and last attempt."""
        middle, low = (LEFT + self.width - RIGHT) / 2, self.height - BOTTOM
        parts = [
            f'<rect class="card" x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8"/>',
            f'<text class="title" x="{LEFT}" y="27">{title}</text>',
            f'<text x="{middle}" y="{self.height - 12}" text-anchor="middle">attempts at training tasks</text>',
        ]
        for percent in range(0, self.most + 1, step):
            y = self.y(percent)
            parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{self.width - RIGHT}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{percent}</text>')
        for attempts in range(0, int(self.whole) + 1, 500):
            parts.append(f'<text x="{self.x(attempts):.1f}" y="{low + 20}" text-anchor="middle">{attempts:,}</text>')
        for name, first, last in phases:
            parts.append(f'<text x="{self.x((first + last) / 2):.1f}" y="{TOP - 14}" text-anchor="middle">{name}</text>')
            if last < self.whole:
                x = self.x(last)
                parts.append(f'<line class="phase" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{low}"/>')
        return parts

    def line(self, colour: str, points: Points) -> str:
        """The values of one kind, joined."""
        return f'<polyline class="{colour}" points="{self._places(points)}"/>'

    def band(self, colour: str, low: Points, high: Points) -> str:
        """What lies between two lines."""
        return f'<polygon class="{colour} full" points="{self._places([*low, *reversed(high)])}"/>'

    def dots(self, colour: str, points: Points) -> list[str]:
        """Values that stand for themselves."""
        return [f'<circle class="{colour} full" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.6"/>' for x, y in points]

    def legend(self, left: float, top: float, names: Sequence[tuple[str, str]]) -> list[str]:
        """What each colour stands for, one under the other."""
        parts = []
        for at, (colour, name) in enumerate(names):
            y = top + 20 * at
            parts.append(f'<line class="{colour} key" x1="{left}" y1="{y}" x2="{left + 26}" y2="{y}"/>')
            parts.append(f'<text x="{left + 34}" y="{y + 4}">{name}</text>')
        return parts

    def written(self, label: str, parts: Sequence[str]) -> str:
        """The file, with what a reader who cannot see it is told."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{label}">'
        return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"

    def _places(self, points: Points) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
