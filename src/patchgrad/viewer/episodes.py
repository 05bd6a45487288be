"""Up to three attempts that a person can read: one that solved its task, one that did not, one with a malformed turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from typing import Any

from patchgrad.errors import Refuse, stop
from patchgrad.store import Run
from patchgrad.viewer.words import counted

Row = dict[str, Any]
GLANCE = ["phase", "iteration", "attempt", "solved", "malformed", "turns", "stop", "fault"]
FENCE = re.compile(r"```[a-z]*\n(.*?)(?:```|\Z)", re.DOTALL)
LINES, LETTERS = 30, 2400
HEADINGS = ("", "One attempt to read", "Two attempts to read", "Three attempts to read")
"""By how many there are."""


def choose(run: Run, refuse: Refuse = stop) -> list[tuple[str, Row]]:
    """Up to three attempts under their headings, each the latest of its kind that is soon read."""
    seen = [row for row in reversed(run.rollouts.rows(columns=GLANCE, refuse=refuse)) if row["turns"] and row["fault"] is None]
    wanted: list[tuple[str, Callable[[Row], bool]]] = [
        ("A success", lambda row: row["solved"] and not row["malformed"]),
        ("A failure", lambda row: not row["solved"] and not row["malformed"]),
        ("A malformed turn", lambda row: row["malformed"] > 0),
    ]
    chosen, used = [], set()
    for heading, fits in wanted:
        found = next(iter(sorted((row for row in seen if fits(row) and row["attempt"] not in used), key=_unreadable)), None)
        if found:
            used.add(found["attempt"])
            rows = run.rollouts.rows(found["phase"], found["iteration"])
            chosen.append((heading, next(row for row in rows if row["attempt"] == found["attempt"])))
    return chosen


def _unreadable(row: Row) -> int:
    """Four to nine turns show something and are soon read; the sort is stable, so the latest comes first."""
    return 0 if 4 <= row["turns"] <= 9 else 1 if row["turns"] <= 14 else 2


def render(heading: str, row: Row) -> str:
    """One attempt as a conversation, its patch and its verdict at the end."""
    turns = "".join(_turn(number, turn) for number, turn in enumerate(row["conversation"], 1))
    outcome = "solved" if row["solved"] else "not solved"
    where = f"{row['phase']} · iteration {row['iteration']} · policy version {row['policy_version']}"
    tag = f'<span class="tag {"good" if row["solved"] else "bad"}">{outcome}</span>'
    about = f"{row['task']} · {counted(row['turns'], 'turn')} · {counted(row['action_tokens'], 'token')} · {row['stop']}"
    return (
        f'<details class="episode"><summary><b>{escape(heading)}</b> {tag}<span class="muted">{escape(about)}</span></summary>'
        f'<p class="muted small">{escape(where)}</p>'
        f'<div class="task"><span class="who">task</span>{_clip(row["instruction"])}</div>'
        f"{turns}{_patch(row['submission'])}{_verdict(row)}</details>"
    )


def _turn(number: int, turn: Row) -> str:
    malformed = f' <span class="tag warn">malformed: {escape(turn["malformed"])}</span>' if turn["malformed"] else ""
    failure = f' <span class="tag warn">{escape(turn["failure"])}</span>' if turn["failure"] and not turn["malformed"] else ""
    code = "" if turn["exit_code"] in (None, 0) else f' <span class="tag">exit {turn["exit_code"]}</span>'
    sure = ""
    if turn["logprob"] is not None:
        sure = f' <span class="muted small">mean log-probability {turn["logprob"]:.2f} over {turn["tokens"]} tokens</span>'
    return (
        f'<div class="turn{" odd" if turn["malformed"] else ""}"><span class="number">{number}</span><div>'
        f'<div class="say"><span class="who">agent</span>{malformed}{sure}{_said(turn["text"])}</div>'
        f'<div class="answer"><span class="who">environment</span>{code}{failure}{_clip(turn["observation"])}</div></div></div>'
    )


def _said(text: str) -> str:
    """Reasoning as prose, fenced commands as code; text without a fence is shown as it is."""
    parts, end = [], 0
    for match in FENCE.finditer(text):
        parts += [_prose(text[end : match.start()]), f'<pre class="command">{escape(match.group(1).strip())}</pre>']
        end = match.end()
    return "".join([*parts, _prose(text[end:])])


def _prose(text: str) -> str:
    return f"<p>{escape(text.strip())}</p>" if text.strip() else ""


def _clip(text: str) -> str:
    """Long output in two parts, the second folded; what a page cannot hold is said to be left out."""
    lines = text.strip("\n").split("\n")
    shown = "\n".join(lines[:LINES])[:LETTERS]
    rest = text.strip("\n")[len(shown) :].lstrip("\n")
    more = ""
    if rest:
        left = f"\n… {len(rest) - 4 * LETTERS} more characters are in the journal" if len(rest) > 4 * LETTERS else ""
        more = f'<details class="more"><summary>more</summary><pre>{escape(rest[: 4 * LETTERS] + left)}</pre></details>'
    return f"<pre>{escape(shown) or '<span class=muted>(nothing)</span>'}</pre>{more}"


def _patch(patch: str) -> str:
    if not patch.strip():
        return '<p class="muted">No file was changed.</p>'
    lines = []
    for line in patch[: 3 * LETTERS].split("\n"):
        kind = "add" if line.startswith("+") and not line.startswith("+++") else ""
        kind = "cut" if line.startswith("-") and not line.startswith("---") else kind
        lines.append(f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line))
    return f'<div class="task"><span class="who">submission</span><pre class="patch">{chr(10).join(lines)}</pre></div>'


def _verdict(row: Row) -> str:
    verdict = json.loads(row["verdict"])
    tests = verdict["tests"]
    marks = "".join(
        f'<li><span class="tag {"good" if test["status"] in ("passed", "xfailed") else "bad"}">{escape(test["status"])}</span> '
        f'{escape(test["id"])} <span class="muted small">{test["expected"].replace("_", " ")}</span></li>'
        for test in tests[:12]
    )
    more = f'<li class="muted">and {len(tests) - 12} more</li>' if len(tests) > 12 else ""
    tamper = "".join(f'<li><span class="tag bad">tampering</span> {escape(item)}</li>' for item in verdict["tamper"])
    parts = ", ".join(f"{escape(name)} {value:.2f}" for name, value in json.loads(row["reward_parts"]).items())
    return (
        f'<div class="verdict"><span class="who">verdict</span><ul>{tamper}{marks}{more}</ul>'
        f'<p class="muted small">reward {row["reward"]:.2f}{" = " + parts if parts else ""}</p></div>'
    )
