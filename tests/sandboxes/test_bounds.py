"""What the host reads of a sandbox's files, and what it refuses before it reads it."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patchgrad.sandboxes.linux import changes
from patchgrad.sandboxes.linux.bounds import LONGEST, Meter, Unkept
from patchgrad.sandboxes.linux.changes import Entries
from patchgrad.sandboxes.linux.entries import packed, unpacked
from patchgrad.sandboxes.linux.frames import Reader, Whole, pack, split

MIB = 1 << 20


@pytest.fixture
def now(tmp_path: Path) -> Iterator[Path]:
    """What an agent works in; the repository beside it is empty. Trees of any depth are removed, which Python and so pytest cannot."""
    for name in ("now", "before"):
        (tmp_path / name).mkdir()
    yield tmp_path / "now"
    subprocess.run(["rm", "-rf", "--", tmp_path / "now"], check=True)


def difference(now: Path, most: int = 16 * MIB) -> Entries:
    return changes.difference(str(now), str(now.parent / "before"), most)


def hole(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_holes_are_counted_in_full_and_refused_unread(now: Path) -> None:
    for number in range(6):
        hole(now / f"hole{number}", 200 * MIB)
    assert sum(path.stat().st_blocks for path in now.iterdir()) == 0
    with pytest.raises(Unkept, match=r"more than its 16 MiB of disk"):
        difference(now)


def test_one_hole_that_no_memory_could_hold_is_refused(now: Path) -> None:
    hole(now / "hole", 1 << 42)
    with pytest.raises(Unkept):
        difference(now)


def test_each_name_of_a_file_is_counted_and_its_content_is_held_once(now: Path) -> None:
    (now / "one").write_bytes(b"x" * MIB)
    for number in range(15):
        os.link(now / "one", now / f"two{number}")
    entries = difference(now)
    assert len(entries) == 16
    assert len({id(content) for _, content in entries.values()}) == 1
    os.link(now / "one", now / "last")
    with pytest.raises(Unkept):
        difference(now)


@pytest.mark.parametrize(("disk", "names"), [(256 * MIB, 16 * MIB), (4 * MIB, MIB)])
def test_names_are_bounded_beside_contents(disk: int, names: int) -> None:
    meter = Meter(disk)
    for _ in range(names // 1024):
        meter.name("n" * (1024 - 64))
    with pytest.raises(Unkept, match=f"names of what changed in /testbed take more than {names >> 20} MiB"):
        meter.name("")


def test_what_fits_on_a_disk_is_kept_whatever_its_shape() -> None:
    draw = random.Random(0)
    for _ in range(200):
        sizes = [draw.choice((0, 1, 4095, 4096, 4097, draw.randrange(3 * MIB))) for _ in range(draw.randrange(1, 30))]
        pages = sum(-(-size // 4096) * 4096 for size in sizes)
        meter = Meter(pages)
        for size in sizes:
            meter.file(size)
        with pytest.raises(Unkept):
            meter.file(1)


def test_a_file_that_is_the_repository_s_own_is_compared_and_not_counted(now: Path) -> None:
    for folder in ("now", "before"):
        (now.parent / folder / "large").write_bytes(b"x" * (3 * MIB))
    assert difference(now, MIB) == {}
    (now / "large").write_bytes(b"y" + b"x" * (3 * MIB - 1))
    with pytest.raises(Unkept):
        difference(now, MIB)


def test_a_link_that_takes_a_folder_s_place_meanwhile_leads_nowhere(now: Path) -> None:
    (now.parent / "secret").mkdir()
    (now.parent / "secret" / "key").write_text("host")
    (now / "folder").mkdir()
    (now / "folder" / "own").touch()
    seen = []
    for one in changes.walk(str(now)):
        seen.append(one.path)
        if one.path == "folder":
            (now / "folder" / "own").unlink()
            (now / "folder").rmdir()
            (now / "folder").symlink_to(now.parent / "secret")
    assert seen == ["folder"]


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


@pytest.mark.parametrize("name", ["file", "folder"])
def test_what_cannot_be_read_is_named(now: Path, name: str) -> None:
    (now / "folder").mkdir()
    (now / "file").write_text("x")
    (now / name).chmod(0)
    for above in (now, *now.parents[:-2]):
        above.chmod(0o755)
    with an_ordinary_user(), pytest.raises(Unkept, match=f"{name} in /testbed cannot be read"):
        difference(now)


def nested(top: Path, name: str, depth: int) -> int:
    """The innermost of so many folders of this name in each other, open."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    return here


@pytest.mark.parametrize(("name", "depth"), [("d" * 250, 20), ("d", 1600), ("\N{SNOWMAN}" * 80, 13)], ids=["long", "short", "no ascii"])
def test_what_is_deeper_than_a_path_can_say_is_no_state(now: Path, name: str, depth: int) -> None:
    os.close(nested(now, name, depth))
    with pytest.raises(Unkept, match=f"longer than {LONGEST} bytes"):
        difference(now, 64 * MIB)


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_a_path_is_kept_up_to_the_longest_and_not_beyond(now: Path, kind: str) -> None:
    def make(size: int) -> None:
        name = "n" * (size - 3000)
        if kind == "folder":
            os.mkdir(name, dir_fd=inner)
        elif kind == "link":
            os.symlink("x", name, dir_fd=inner)
        else:
            os.close(os.open(name, os.O_CREAT, dir_fd=inner))

    inner = nested(now, "d" * 99, 30)
    make(LONGEST - 1)
    assert max(map(len, difference(now))) == LONGEST - 1
    make(LONGEST)
    os.close(inner)
    with pytest.raises(Unkept):
        difference(now)


def test_entries_are_read_as_they_were_written_and_a_shared_content_is_sent_once() -> None:
    shared = b"x" * 1000
    entries: Entries = {f"name{number}": (0o100644, shared) for number in range(50)}
    entries |= {"gone": (0, None), "folder": (0o40755, b""), "link \udcff\n": (0o120777, b"\xff"), "last": (0o100755, b"y")}
    body = packed(entries)
    assert unpacked(body) == entries
    assert body.count(shared) == 1
    assert len({id(content) for _, content in unpacked(body).values() if content == shared}) == 1
    assert unpacked(b"") == {}


def test_long_messages_go_in_parts_that_others_come_between() -> None:
    draw = random.Random(1)
    bodies = {number: draw.randbytes(size) for number, size in enumerate((0, 1, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9 << 20))}
    frames = {number: list(split({"id": number, "op": "x"}, body)) for number, body in bodies.items()}
    assert max(len(frame) for parts in frames.values() for frame in parts) < (4 << 20) + 100
    reader, whole, found = Reader(), Whole(), dict[int, bytes]()
    while any(frames.values()):
        number = draw.choice([number for number, parts in frames.items() if parts])
        for header, body in whole.feed(reader.feed(frames[number].pop(0))):
            assert header == {"id": header["id"], "op": "x"}
            found[header["id"]] = body
    assert found == bodies


def test_a_message_that_no_reader_would_take_is_not_sent() -> None:
    with pytest.raises(ValueError, match="larger than any"):
        pack({"words": "x" * (16 << 20)})
    assert json.loads(pack({"words": "x"})[8:]) == {"words": "x"}
