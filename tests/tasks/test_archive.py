from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.errors import TaskError
from patchgrad.tasks import archive

FILES = {"src/box.py": b"def area(): ...\n", "a.txt": b"", "deep/" * 40 + "file": b"\x00\xff"}


def hostile(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    return buffer.getvalue()


def test_the_same_files_give_the_same_bytes_in_any_order() -> None:
    assert archive.pack(FILES) == archive.pack(dict(reversed(FILES.items())))
    assert archive.unpack(archive.pack(FILES)) == FILES
    assert archive.unpack(gzip.compress(archive.pack(FILES))) == FILES


def test_members_have_no_owner_time_or_mode_of_their_own() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive.pack(FILES))) as tar:
        facts = {(m.mode, m.mtime, m.uid, m.gid, m.uname) for m in tar}
    assert facts == {(0o644, 0, 0, 0, "")}


def test_a_stored_archive_is_named_by_its_hash_and_opens(tmp_path: Path) -> None:
    repository = archive.store(tmp_path / "archives", archive.pack(FILES))
    assert Path(repository.location).name == f"{repository.digest}.tar"
    assert archive.store(tmp_path / "archives", archive.pack(FILES)) == repository
    assert archive.open_archive(repository) == FILES
    assert len(list((tmp_path / "archives").iterdir())) == 1


def test_a_missing_or_changed_archive_is_one_sentence(tmp_path: Path) -> None:
    repository = archive.store(tmp_path, archive.pack(FILES))
    with pytest.raises(TaskError, match="hash"):
        archive.open_archive(replace(repository, digest="0" * 64))
    with pytest.raises(TaskError, match="cannot be read"):
        archive.open_archive(replace(repository, location=str(tmp_path / "gone.tar")))
    with pytest.raises(TaskError, match="no regular file"):
        archive.open_archive(replace(repository, location=str(tmp_path)))


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../b", "..", "a\\b"])
def test_names_outside_the_tree_are_refused_both_ways(name: str) -> None:
    with pytest.raises(TaskError, match="outside its tree"):
        archive.unpack(hostile(name))
    with pytest.raises(TaskError, match="outside its tree"):
        archive.pack({name: b""})


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes) -> None:
    with pytest.raises(TaskError, match="link or a device"):
        archive.unpack(hostile("inside", kind))


def test_what_is_no_tar_or_too_large_is_refused() -> None:
    with pytest.raises(TaskError, match="no readable tar"):
        archive.unpack(b"not a tar file")
    with pytest.raises(TaskError, match="more than"):
        archive.unpack(archive.pack(FILES), largest=3)
