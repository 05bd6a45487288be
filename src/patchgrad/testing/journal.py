"""What every journal must hold, as one function that its author runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from patchgrad.contracts import Journal
from patchgrad.errors import StoreError
from patchgrad.testing.examples import TASK, example_turn, example_verdict
from patchgrad.values import Ending, Snapshot, Turn, root_address

STATE = Snapshot.of({"a.py": (0o100644, b"x = 2\n"), "gone.py": (0, None), "run": (0o100755, b"\x00\xff"), "link": (0o120777, b"a.py")})
OTHER = Snapshot.of({"a.py": (0o100644, b"x = 3\n")})
ELSEWHERE = "/testbed/shop"


async def check_journal(make: Callable[[], Journal]) -> None:
    """Raises `AssertionError` for the first rule that a journal breaks; `make` gives a fresh one each time, which holds nothing yet.

    What was awaited can be recalled at once, in its order, and only under its attempt and after its root; an ending comes with all turns
    before it; two forks may have a turn of one address, and each has its own; where an attempt went on twice from one turn, the later one
    counts; a turn whose state is not here is not recalled, nor what comes after it; a state comes back byte for byte, with the shell where
    it is asked for, and one that is not here is a `StoreError`; `holds` knows turns and endings, of all attempts and of one; attempts that
    write at the same time lose nothing. A journal that keeps nothing takes everything, and has none of it.
    """
    if not make().keeps:
        await _check_nothing(make())
        return
    await _check_chain(make())
    await _check_forks(make())
    await _check_twice(make())
    await _check_states(make())
    await _check_crowd(make())


def _root(attempt: str) -> str:
    return root_address(TASK, attempt)


def _turns(attempt: str, count: int = 3) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(count):
        turns.append(example_turn(turns[-1].address if turns else _root(attempt), f"turn {number}", 2 + number, STATE.address))
    return turns


def _ending(parent: str) -> Ending:
    return Ending(parent, "submitted", "a patch", example_verdict(True), 2.5)


async def _known(journal: Journal, attempt: str, root: str = "") -> tuple[list[str], str]:
    """The addresses of what is recalled, and that of the ending."""
    turns, ending = await journal.recall(attempt, root or _root(attempt))
    return [turn.address for turn in turns], ending.address if ending is not None else ""


async def _check_nothing(journal: Journal) -> None:
    (turn,) = _turns("a", 1)
    await journal.state(STATE)
    await journal.turn("a", turn)
    await journal.ending("a", _ending(turn.address))
    assert await _known(journal, "a") == ([], ""), "a journal that keeps nothing recalls nothing"
    assert not journal.holds(turn.address), "a journal that keeps nothing holds nothing"
    assert not journal.holds(turn.address, "a"), "a journal that keeps nothing holds nothing of an attempt either"
    await _check_missing(journal, STATE.address)


async def _check_chain(journal: Journal) -> None:
    turns, told = _turns("a"), list[str]()
    assert await _known(journal, "a") == ([], ""), "of an attempt that nothing was written of nothing is known"
    await journal.state(STATE)
    for turn in turns:
        assert not journal.holds(turn.address), "what was not written is not held"
        await journal.turn("a", turn)
        told.append(turn.address)
        assert await _known(journal, "a") == (told, ""), "a turn that was awaited is recalled, after those before it"
        assert journal.holds(turn.address), "a turn that was awaited is held"
        assert journal.holds(turn.address, "a"), "it is held as one of its attempt"
        assert not journal.holds(turn.address, "b"), "it is not held as one of another attempt"
    ending = _ending(told[-1])
    await journal.ending("a", ending)
    assert await _known(journal, "a") == (told, ending.address), "an ending is recalled with all turns before it"
    assert journal.holds(ending.address), "an ending is held too"
    assert journal.holds(ending.address, "a"), "an ending is held as one of its attempt"
    assert await _known(journal, "a", turns[0].address) == (told[1:], ending.address), "after a later root there are the later turns"
    assert await _known(journal, "a", _root("b")) == ([], ""), "after another root there is nothing"
    assert await _known(journal, "b") == ([], ""), "another attempt has nothing of it"
    found, last = await journal.recall("a", _root("a"))
    assert all(_same(one, other) for one, other in zip(found, turns, strict=True)), "a turn comes back as it was"
    assert last == ending, "an ending comes back as it was, with its verdict and its seconds"
    at_once = _ending(_root("nothing done"))
    await journal.ending("nothing done", at_once)
    assert await _known(journal, "nothing done") == ([], at_once.address), "an attempt may end before its first turn"


def _same(one: Turn, other: Turn) -> bool:
    arrays = ((turn.context.tobytes(), turn.action.token_ids.tobytes(), turn.action.logprobs.tobytes()) for turn in (one, other))
    kinds = ((turn.context.dtype, turn.action.token_ids.dtype, turn.action.logprobs.dtype) for turn in (one, other))
    said = ((turn.call, turn.observation, turn.state, turn.parent, turn.action.text, turn.action.origin) for turn in (one, other))
    return all(len(set(map(repr, facts))) == 1 for facts in (arrays, kinds, said))


async def _check_forks(journal: Journal) -> None:
    """Two forks that go on from one turn and do the same have turns of one address."""
    first, same, later = _turns("a")
    await journal.state(STATE)
    await journal.turn("a", first)
    for fork in ("fork 1", "fork 2"):
        await journal.turn(fork, same)
        assert journal.holds(same.address, fork), "each of two forks holds a turn of the same address"
    assert await _known(journal, "fork 1", first.address) == await _known(journal, "fork 2", first.address) == ([same.address], "")
    await journal.turn("fork 2", later)
    ending = _ending(same.address)
    await journal.ending("fork 1", ending)
    assert await _known(journal, "fork 1", first.address) == ([same.address], ending.address), "what one fork did is not the other's"
    assert await _known(journal, "fork 2", first.address) == ([same.address, later.address], ""), "how one fork ended is not the other's"
    assert not journal.holds(ending.address, "fork 2"), "an ending is held as one of its attempt alone"


async def _check_twice(journal: Journal) -> None:
    first, second, third = _turns("a")
    anew = example_turn(first.address, "another way", 4, STATE.address)
    await journal.state(STATE)
    for turn in (first, second, third, anew):
        await journal.turn("a", turn)
    assert await _known(journal, "a") == ([first.address, anew.address], ""), "where an attempt went on twice, the later turn counts"
    await journal.turn("a", first)
    assert await _known(journal, "a") == ([first.address, anew.address], ""), "a turn that is written again is there once"
    await journal.ending("a", _ending(third.address))
    assert await _known(journal, "a") == ([first.address, anew.address], ""), "an ending after turns that no longer count is none"
    assert journal.holds(second.address, "a"), "what no longer counts is held all the same"


async def _check_states(journal: Journal) -> None:
    for snapshot in (STATE, OTHER, Snapshot.of({})):
        await _check_missing(journal, snapshot.address)
        await journal.state(snapshot)
        await journal.state(snapshot)
        for directory in ("/testbed", ELSEWHERE):
            found = await journal.snapshot(snapshot.address, directory)
            assert found.address == snapshot.address, "a state has the address that it was asked for by"
            assert dict(found.entries) == dict(snapshot.entries), "a state comes back byte for byte, with modes and deletions"
            assert found.directory == directory, "the shell of a state is where it was asked for"
    first = example_turn(_root("b"), "one", 2, STATE.address)
    lost = example_turn(first.address, "two", 2, Snapshot.of({"never": (0o100644, b"")}).address)
    last = example_turn(lost.address, "three", 2, STATE.address)
    for turn in (first, lost, last):
        await journal.turn("b", turn)
    await journal.ending("b", _ending(last.address))
    assert await _known(journal, "b") == ([first.address], ""), "turns are recalled as far as states are here, and no ending after a gap"


async def _check_missing(journal: Journal, address: str) -> None:
    try:
        await journal.snapshot(address, "/testbed")
    except StoreError:
        return
    raise AssertionError("a state that is not here is a StoreError")


async def _check_crowd(journal: Journal) -> None:
    async def write(attempt: str) -> tuple[list[str], str]:
        turns = _turns(attempt)
        await journal.state(STATE)
        for turn in turns:
            await journal.turn(attempt, turn)
            await asyncio.sleep(0)
        ending = _ending(turns[-1].address)
        await journal.ending(attempt, ending)
        return [turn.address for turn in turns], ending.address

    names = [f"attempt {number}" for number in range(8)]
    written = await asyncio.gather(*map(write, names))
    assert [await _known(journal, name) for name in names] == written, "attempts that write at the same time lose nothing"
