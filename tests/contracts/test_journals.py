"""Every journal against the contract."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgrad.contracts import Journal
from patchgrad.rollouts.journals import LayeredJournal, MemoryJournal, NullJournal
from patchgrad.store import RunJournal
from patchgrad.testing import check_journal
from patchgrad.testing.examples import TASK, example_turn
from patchgrad.testing.journal import STATE
from patchgrad.values import Ending, Turn, root_address

JOURNALS: dict[str, Callable[[], Journal]] = {
    "null": NullJournal,
    "memory": MemoryJournal,
    "memory over memory": lambda: LayeredJournal(MemoryJournal(), MemoryJournal()),
    "memory over null": lambda: LayeredJournal(MemoryJournal(), NullJournal()),
    "null over memory": lambda: LayeredJournal(NullJournal(), MemoryJournal()),
}


def opened(folder: Path) -> RunJournal:
    """The journal of a run that was created there."""
    (folder / "journal").mkdir(parents=True, exist_ok=True)
    return RunJournal(folder, lambda: True)


@pytest.mark.parametrize("make", JOURNALS.values(), ids=JOURNALS)
def test_a_journal_that_needs_no_disk_keeps_the_contract(make: Callable[[], Journal]) -> None:
    asyncio.run(check_journal(make))


def test_the_journal_of_a_run_keeps_the_contract(tmp_path: Path) -> None:
    numbers = itertools.count()
    asyncio.run(check_journal(lambda: opened(tmp_path / str(next(numbers)))))


def test_what_one_journal_of_a_folder_has_written_another_one_recalls(tmp_path: Path) -> None:
    writer, reader = (opened(tmp_path) for _ in range(2))
    turn = example_turn(root_address(TASK, "a"), "ls", 3, STATE.address)

    async def write() -> None:
        await writer.state(STATE)
        await writer.turn("a", turn)

    asyncio.run(write())
    turns, ending = asyncio.run(reader.recall("a", root_address(TASK, "a")))
    assert ([one.address for one in turns], ending) == ([turn.address], None)
    assert asyncio.run(reader.snapshot(STATE.address, "/testbed")) == STATE


def test_states_of_another_run_are_read_through_a_layer_and_its_turns_are_held_and_not_recalled() -> None:
    own, source = MemoryJournal(), MemoryJournal()
    turn = example_turn(root_address(TASK, "a"), "ls", 3, STATE.address)

    async def write() -> None:
        await source.state(STATE)
        await source.turn("a", turn)

    asyncio.run(write())
    layered = LayeredJournal(own, source)
    assert asyncio.run(layered.snapshot(STATE.address, "/testbed/shop")).entries == STATE.entries
    assert layered.holds(turn.address, "a")
    assert asyncio.run(layered.recall("a", root_address(TASK, "a"))) == ((), None)


class Faulty(MemoryJournal):
    """Keeps turns by address alone, so that what one fork did is another one's too."""

    async def turn(self, attempt: str, turn: Turn) -> None:
        await super().turn("all", turn)

    async def ending(self, attempt: str, ending: Ending) -> None:
        await super().ending("all", ending)

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        return await super().recall("all", root)


def test_a_journal_that_mixes_attempts_up_is_found_out() -> None:
    with pytest.raises(AssertionError, match="as one of its attempt"):
        asyncio.run(check_journal(Faulty))
