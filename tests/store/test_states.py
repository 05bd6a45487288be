"""States on the disk: what is put comes back exactly, every content once, a torn tail is nothing, a sweep keeps what is named."""

from __future__ import annotations

import random
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.errors import StoreError
from patchgrad.store import States, files
from patchgrad.values import Snapshot

MODES = st.sampled_from([0o100644, 0o100755, 0o120777, stat.S_IFDIR | 0o755])
ENTRIES = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
    st.one_of(st.tuples(MODES, st.binary(max_size=200)), st.just((0, None))),
    max_size=6,
)


@given(st.lists(ENTRIES, max_size=5))
def test_what_is_put_comes_back_exactly_also_to_another_reader(states: list[dict[str, tuple[int, bytes | None]]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        store = States(Path(folder) / "states")
        put = [Snapshot.of(entries, "/testbed/a") for entries in states]
        for snapshot in put:
            store.put(snapshot)
            store.put(snapshot)
        store.sync()
        for reader in (store, States(Path(folder) / "states")):
            assert [reader.get(snapshot.address, "/testbed/a") for snapshot in put] == put


def test_a_name_that_is_no_text_comes_back(tmp_path: Path) -> None:
    snapshot = Snapshot.of({b"caf\xe9".decode(errors="surrogateescape"): (0o100644, b"x")})
    States(tmp_path).put(snapshot)
    assert States(tmp_path).get(snapshot.address) == snapshot


def test_a_content_is_stored_once_whatever_states_hold_it(tmp_path: Path) -> None:
    store, big = States(tmp_path), random.Random(0).randbytes(100_000)
    for number in range(100):
        store.put(Snapshot.of({"big": (0o100644, big), "small": (0o100644, b"%d" % number)}))
    assert store.size() < 1.4 * len(big)


def test_a_torn_tail_was_never_written_and_the_next_writer_cuts_it(tmp_path: Path) -> None:
    one, two = Snapshot.of({"a": (0o100644, b"1" * 99)}), Snapshot.of({"b": (0o100644, b"2" * 99)})
    store = States(tmp_path)
    store.put(one)
    whole = store.size()
    store.put(two)
    pack = store.packs()[0]
    content = pack.read_bytes()
    for end in range(whole, len(content)):
        pack.write_bytes(content[:end])
        torn = States(tmp_path)
        assert torn.get(one.address) == one
        assert two.address not in torn
        ((pack, last),) = torn.whole({}).items()
        files.cut(pack, last)
        again = States(tmp_path)
        again.put(two)
        assert States(tmp_path).get(two.address) == two


def test_a_sweep_keeps_what_is_named_and_frees_the_rest(tmp_path: Path) -> None:
    store, noise = States(tmp_path), random.Random(0).randbytes
    shared, lost = noise(10_000), noise(50_000)
    kept, gone = Snapshot.of({"s": (0o100644, shared)}), Snapshot.of({"s": (0o100644, shared), "l": (0o100644, lost)})
    store.put(kept)
    store.put(gone)
    assert store.sweep([kept.address, "not here"]) > len(lost)
    assert store.get(kept.address) == kept
    with pytest.raises(StoreError, match="holds no state"):
        store.get(gone.address)
    store.put(gone)
    assert States(tmp_path).get(gone.address) == gone


def test_a_reader_sees_what_a_writer_has_put_meanwhile(tmp_path: Path) -> None:
    writer, reader = States(tmp_path), States(tmp_path)
    for number in range(3):
        snapshot = Snapshot.of({"a": (0o100644, b"%d" % number)})
        assert snapshot.address not in reader
        writer.put(snapshot)
        assert reader.get(snapshot.address) == snapshot


def test_damage_is_named_and_never_data(tmp_path: Path) -> None:
    snapshot = Snapshot.of({"a": (0o100644, bytes(range(200)))})
    States(tmp_path / "one").put(snapshot)
    content = (tmp_path / "one" / "00000.pack").read_bytes()
    for at in range(80, len(content), 7):
        damaged = content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
        shutil.rmtree(tmp_path / "two", ignore_errors=True)
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "00000.pack").write_bytes(damaged)
        with pytest.raises(StoreError):
            States(tmp_path / "two").get(snapshot.address)
