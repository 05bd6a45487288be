"""A window of a file is made of whole lines, has the line that was asked for, and leaves none out between two scrolls."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from patchgrad.agents.tools.special import Open, ScrollDown, ScrollUp, Special
from patchgrad.agents.tools.window import View, answer, split
from patchgrad.testing.sandbox_double import LocalSandbox
from patchgrad.values import Observation, ToolState

PATH = "/testbed/a.py"
LINES = some.lists(some.integers(0, 60).map("x".__mul__), min_size=1, max_size=60)
VIEWS = some.builds(View, some.integers(2, 20), some.integers(0, 1), some.integers(200, 600), some.booleans())


class OneFile(LocalSandbox):
    """Has one file, and nothing else."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    async def read(self, path: str) -> bytes:
        return "\n".join(self.lines).encode() + b"\n"


def seen(lines: list[str], tool: Special, arguments: str, state: ToolState) -> tuple[list[int], Observation]:
    """The numbers of the lines in sight, each of which is whole."""
    found = asyncio.run(tool(arguments, OneFile(lines), state))
    assert not found.clipped
    assert len(found.content) <= tool.view.limit
    rows = [row.partition(":") for row in found.content.splitlines() if row[:1].isdecimal()]
    assert all(text == lines[int(number) - 1] for number, _, text in rows)
    return [int(number) for number, _, _ in rows], found


@given(LINES, VIEWS, some.data())
def test_the_line_that_is_asked_for_is_in_sight_and_whole(lines: list[str], view: View, data: some.DataObject) -> None:
    line = data.draw(some.integers(1, len(lines)))
    shown, found = seen(lines, Open(view), f"a.py {line}", ToolState())
    assert line in shown
    assert found.tool_state.line == shown[0]


@given(LINES, VIEWS)
def test_scrolling_shows_every_line_in_both_directions(lines: list[str], view: View) -> None:
    shown, found = seen(lines, Open(view), "a.py 1", ToolState())
    before, all_seen = 0, set(shown)
    while found.tool_state.line != before:
        before = found.tool_state.line
        shown, found = seen(lines, ScrollDown(view), "", found.tool_state)
        all_seen.update(shown)
    assert shown[-1] == len(lines)
    assert all_seen == set(range(1, len(lines) + 1))
    all_seen, before = set(shown), 0
    while found.tool_state.line != before:
        before = found.tool_state.line
        shown, found = seen(lines, ScrollUp(view), "", found.tool_state)
        all_seen.update(shown)
    assert shown[0] == 1
    assert all_seen == set(range(1, len(lines) + 1))


@given(LINES, some.integers(60, 400))
def test_what_is_too_long_is_cut_between_lines_where_these_are_short(lines: list[str], limit: int) -> None:
    content = "\n".join(lines)
    found = answer(content, ToolState(), replace(View(), limit=limit))
    assert found.clipped == (len(content) > limit)
    if found.clipped:
        head, _, tail = found.content.partition("\n[... ")
        tail = tail.partition("]\n")[2]
        assert content.startswith(head)
        assert content.endswith(tail)
        assert len(head) + len(tail) <= limit
        assert f"[... {len(content) - len(head) - len(tail)} characters" in found.content
        assert split("", content).lines[: head.count("\n")] == split("", head).lines[: head.count("\n")]
