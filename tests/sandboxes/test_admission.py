"""Who is let in: the first always, the next while the host has memory and nobody waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from patchgrad.sandboxes.admission import Admission

GIB = 1 << 30


def host(folder: Path, available: float, pressure: float = 0.0) -> Path:
    (folder / "pressure").mkdir(exist_ok=True)
    (folder / "meminfo").write_text(f"MemTotal:       99999999 kB\nMemAvailable:   {int(available * GIB) >> 10} kB\n")
    (folder / "pressure" / "memory").write_text(f"some avg10={pressure:.2f} avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n")
    return folder


@pytest.mark.parametrize(("available", "pressure", "enters"), [(4, 0, True), (1.5, 0, False), (4, 25, False), (4, 9, True)])
def test_memory_and_its_pressure_decide(tmp_path: Path, available: float, pressure: float, enters: bool) -> None:
    assert Admission(share=1.0, proc=host(tmp_path, available, pressure)).room(GIB) is enters


def test_where_the_kernel_says_nothing_everybody_enters(tmp_path: Path) -> None:
    assert Admission(proc=tmp_path).room(GIB)


def test_the_first_enters_a_full_host_and_the_next_when_there_is_room(tmp_path: Path) -> None:
    async def steps() -> None:
        door = Admission(young=0.0, proc=host(tmp_path, 0.5))
        await asyncio.wait_for(door.enter(GIB), 1)
        second = asyncio.create_task(door.enter(GIB))
        await asyncio.sleep(0.3)
        assert not second.done()
        host(tmp_path, 4)
        await asyncio.wait_for(second, 2)

    asyncio.run(steps())


def test_one_that_leaves_an_empty_house_lets_the_next_in(tmp_path: Path) -> None:
    async def steps() -> None:
        door = Admission(young=0.0, proc=host(tmp_path, 0.5))
        await door.enter(GIB)
        second = asyncio.create_task(door.enter(GIB))
        await asyncio.sleep(0.1)
        door.leave()
        await asyncio.wait_for(second, 2)

    asyncio.run(steps())


def test_those_just_let_in_count_with_what_they_have_not_taken_yet(tmp_path: Path) -> None:
    async def steps() -> None:
        door = Admission(share=1.0, young=0.4, proc=host(tmp_path, 3.5))
        await door.enter(GIB)
        await door.enter(GIB)
        assert not door.room(GIB)
        await asyncio.sleep(0.5)
        assert door.room(GIB)

    asyncio.run(steps())
