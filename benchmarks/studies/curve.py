"""Draws docs/images/learning-curve.svg from three kept runs of the recipe `laptop`: python benchmarks/studies/curve.py

The files are docs/studies/ablations/control-31.json, -32 and -33. The same files give the same picture, byte for byte.
"""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = DOCS / "images" / "learning-curve.svg"
SEEDS = (31, 32, 33)
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 66, 52
MOST = 80
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #444c56 }
.title { font-weight: 600; font-size: 15px; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d0d7de }
.legend { fill: #ffffff }
.grid { stroke: #d8dee4; stroke-width: 1 }
.phase { stroke: #8c959f; stroke-width: 1; stroke-dasharray: 3 4 }
.held { stroke: #0969da; fill: none; stroke-width: 2.5 }
.seed { fill: #0969da }
.train { stroke: #bc4c00; fill: none; stroke-width: 1.8; opacity: .85 }
@media (prefers-color-scheme: dark) {
text { fill: #adbac7 } .title { fill: #e6edf3 } .card { fill: #161b22; stroke: #30363d } .legend { fill: #161b22 } .grid { stroke: #2a313a }
.phase { stroke: #6e7681 } .held { stroke: #58a6ff } .seed { fill: #58a6ff } .train { stroke: #f0883e }
}
"""


def x(attempts: float, whole: float) -> str:
    """The place of so many attempts of a whole run."""
    return f"{LEFT + (WIDTH - LEFT - RIGHT) * attempts / whole:.1f}"


def y(percent: float) -> str:
    """The place of a share in percent."""
    return f"{HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / MOST:.1f}"


def mean(values: list[float]) -> float:
    """The mean, as a percentage of shares."""
    return 100 * sum(values) / len(values)


def drawn(runs: list[dict[str, Any]]) -> str:
    """The picture: held-out tasks after each phase, and training tasks in each iteration."""
    rows = [run["metrics"] for run in runs]
    ends = list(accumulate(row["episodes"] for row in rows[0]))
    whole = ends[-1]
    phases = [row["phase"] for row in rows[0]]
    measured = [0, *(ends[i] for i, phase in enumerate(phases) if phases[i + 1 : i + 2] != [phase])]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Tasks solved, by attempts">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="27">Tasks solved in one attempt (Pass@1, %), an earlier recipe laptop, three seeds</text>',
    ]
    for percent in range(0, MOST + 1, 20):
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y(percent)}" x2="{WIDTH - RIGHT}" y2="{y(percent)}"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{float(y(percent)) + 4:.1f}" text-anchor="end">{percent}</text>')
    for attempts in range(0, whole + 1, 1000):
        parts.append(f'<text x="{x(attempts, whole)}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{attempts:,}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">attempts at training tasks</text>')
    names = ("rejection fine-tuning", "RL, stage 1", "RL, stage 2")
    for name, start, end in zip(names, measured[:-1], measured[1:], strict=True):
        middle = (float(x(start, whole)) + float(x(end, whole))) / 2
        parts.append(f'<text x="{middle:.1f}" y="{TOP - 14}" text-anchor="middle">{name}</text>')
        if end != whole:
            parts.append(f'<line class="phase" x1="{x(end, whole)}" y1="{TOP - 6}" x2="{x(end, whole)}" y2="{y(0)}"/>')
    solved = [mean([row[i]["pass_at_1"] for row in rows]) for i in range(len(ends))]
    middles = [end - row["episodes"] / 2 for end, row in zip(ends, rows[0], strict=True)]
    line = " ".join(f"{x(at, whole)},{y(value)}" for at, value in zip(middles, solved, strict=True))
    parts.append(f'<polyline class="train" points="{line}"/>')
    held = [[run["reports"][i]["pass_at_1"]["mean"] for run in runs] for i in range(len(measured))]
    line = " ".join(f"{x(at, whole)},{y(mean(values))}" for at, values in zip(measured, held, strict=True))
    parts.append(f'<polyline class="held" points="{line}"/>')
    for at, values in zip(measured, held, strict=True):
        parts += [f'<circle class="seed" cx="{x(at, whole)}" cy="{y(100 * value)}" r="3.5"/>' for value in values]
    low = float(y(0)) - 42
    parts += [
        f'<rect class="legend" x="{WIDTH - 308}" y="{low - 14}" width="290" height="50"/>',
        f'<line class="held" x1="{WIDTH - 300}" y1="{low}" x2="{WIDTH - 272}" y2="{low}"/>',
        f'<circle class="seed" cx="{WIDTH - 286}" cy="{low}" r="3.5"/>',
        f'<text x="{WIDTH - 264}" y="{low + 4}">held-out tasks: mean, and each seed</text>',
        f'<line class="train" x1="{WIDTH - 300}" y1="{low + 22}" x2="{WIDTH - 272}" y2="{low + 22}"/>',
        f'<text x="{WIDTH - 264}" y="{low + 26}">training tasks of an iteration: mean</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def picture() -> str:
    """The picture of the kept runs."""
    return drawn([json.loads((DOCS / "studies" / "ablations" / f"control-{seed}.json").read_text()) for seed in SEEDS])


if __name__ == "__main__":
    PICTURE.write_text(picture())
