"""In the set of real packages, as text, nothing that is held out stands in what is trained on."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

SET = Path(__file__).parents[2] / "sets" / "packages" / "tasks.jsonl.xz"
ORDINARY = {")", "else:", "if result is not None:", "pass", "raise NotImplementedError", "return None", "return True"}
"""Lines that a bug left in packages of both sides: none tells of a bug by itself."""


@cache
def tasks(split: str) -> list[dict[str, Any]]:
    with lzma.open(SET, "rt", encoding="utf-8") as rows:
        every = [json.loads(row) for row in rows]
    assert {one["tags"]["split"] for one in every} == {"train", "held_out"}
    return [one for one in every if one["tags"]["split"] == split]


def statements(found: Iterable[Mapping[str, Any]]) -> set[str]:
    return {text.strip() for one in found for text in (one["instruction"], *one["levels"].values())}


def planted(found: Iterable[Mapping[str, Any]]) -> set[str]:
    """The lines that bugs put into their packages, without indentation."""
    hunks = [part.partition("@@")[2] for one in found for part in re.split(r"^--- a/", one["repository"]["patch"], flags=re.MULTILINE)]
    return {line[1:].strip() for hunk in hunks for line in hunk.splitlines() if line.startswith("+")} - {""}


def test_no_package_is_on_both_sides() -> None:
    trained, held_out = ({one["tags"]["package"] for one in tasks(split)} for split in ("train", "held_out"))
    assert trained
    assert held_out
    assert not trained & held_out
    trained, held_out = ({one["repository"]["digest"] for one in tasks(split)} for split in ("train", "held_out"))
    assert not trained & held_out, "nor under another name"


def test_no_statement_is_on_both_sides() -> None:
    trained, held_out = statements(tasks("train")), statements(tasks("held_out"))
    assert len(held_out) > len(tasks("held_out")), "in several levels"
    assert not trained & held_out


def test_no_line_of_a_bug_is_on_both_sides_but_for_those_that_tell_nothing() -> None:
    trained, held_out = planted(tasks("train")), planted(tasks("held_out"))
    assert len(held_out - ORDINARY) > 100
    assert trained & held_out <= ORDINARY
