"""Sources and files about a project in the encodings that they are found in: they carry bugs, or it is said why not."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest
from tests.tasks.caches import a_cache

from patchgrad.cli import main
from patchgrad.tasks.forge.hiding import hide
from patchgrad.tasks.mutations import mutants
from patchgrad.tasks.probes import changed_lines, probes
from patchgrad.tasks.projects import metadata
from patchgrad.tasks.sets import members, unified
from patchgrad.tasks.sources import barred, text_of
from patchgrad.tasks.trees import first_state, patched

CLAMP = "def clamp(value, low):\n    if value < low:\n        return low\n    return value\n"
TESTS = "from box import clamp\n\n\ndef test_low():\n    assert clamp(1, 2) == 2\n\n\ndef test_high():\n    assert clamp(3, 2) == 3\n"
TESTS += "\n\ndef test_same():\n    assert clamp(2, 2) == 2\n"
MARK = codecs.BOM_UTF8


@pytest.mark.parametrize("source", [CLAMP, f"\n# é\n{CLAMP}", f"x = 'é'; y = lambda a: a\n{CLAMP}", "def one(a, b): return a < b\n"])
def test_a_byte_order_mark_changes_no_bug_and_stays(source: str) -> None:
    plain, marked = mutants(source), mutants(f"\ufeff{source}")
    assert plain
    assert [f"\ufeff{bug.source}" for bug in plain] == [bug.source for bug in marked]
    assert [bug.original() for bug in marked] == [f"\ufeff{source}"] * len(marked)
    for bug in marked:
        patch = unified("box.py", f"\ufeff{source}", bug.source)
        assert patched({"box.py": MARK + source.encode()}, patch) == {"box.py": bug.source.encode()}


def test_tests_behind_a_byte_order_mark_are_hidden_and_the_mark_stays() -> None:
    files = {"box.py": CLAMP.encode(), "test_box.py": MARK + TESTS.encode()}
    hidden = hide(files, ["test_box.py::test_low"])
    assert hidden is not None
    assert hidden["test_box.py"].startswith(MARK + b"from box import clamp")
    assert b"test_low" not in hidden["test_box.py"]


def test_wrong_repairs_are_made_of_marked_sources_too_and_none_of_those_that_are_no_text() -> None:
    broken = CLAMP.replace("<", ">")
    for mark, expected in (("", 2), ("\ufeff", 2)):
        repair = unified("box.py", mark + broken, mark + CLAMP)
        assert len(probes(repair, {"box.py": (mark + broken).encode()})) == expected
    assert probes(repair, {"box.py": b"# caf\xe9\n" + broken.encode()}) == {}


def test_a_form_feed_within_a_line_of_a_patch_ends_no_line() -> None:
    old = "text = 'one\x0c-two'\nnumber = 1\n"
    assert changed_lines(unified("box.py", old, old.replace("1", "2"))) == {"box.py": {2}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (MARK + CLAMP.encode(), ""),
        (f"# -*- coding: latin-1 -*-\n{CLAMP}".encode(), ""),
        (f"# -*- coding: latin-1 -*-\n# é\n{CLAMP}".encode("latin-1"), "not UTF-8"),
        (f"# coding: shift_jis\nx = 'テ'\n{CLAMP}".encode("shift_jis"), "not UTF-8"),
        (CLAMP.encode("utf-16"), "not UTF-8"),
        (b"print 'old'\n", "not Python of this version"),
        (CLAMP.replace("\n", "\r").encode(), "line ends that git does not know"),
        (CLAMP.replace("\n", "\r\n").encode(), ""),
    ],
)
def test_a_source_carries_bugs_or_it_is_said_why_not(content: bytes, why: str) -> None:
    assert barred(content) == why
    assert bool(mutants(text_of(content))) == (not why)


def test_sources_of_both_kinds_in_one_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    a_cache(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "box"
    (folder / "tests").mkdir(parents=True)
    (folder / "box.py").write_bytes(MARK + CLAMP.encode())
    (folder / "cafe.py").write_bytes(f"# -*- coding: latin-1 -*-\nNAME = 'é'\n\n\n{CLAMP}".encode("latin-1"))
    (folder / "tests" / "test_box.py").write_bytes(MARK + TESTS.encode())
    (folder / "tests" / "test_no.py").write_text("import nothing_there\n\n\ndef test_it():\n    pass\n")
    words = ["tasks", "forge", str(folder), "--out", str(tmp_path / "set"), "--count", "1", "--confirm", "1"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["sources"][0]
    assert told["passed_over"] == {
        "cafe.py": "not UTF-8",
        "tests/test_no.py": "ModuleNotFoundError: No module named 'nothing_there'",
    }
    assert told["left_out"] == {"not collected": 1}
    (made,) = members(tmp_path / "set")
    broken = first_state(made.task.repository)
    assert broken["box.py"].startswith(MARK)
    assert patched(broken, made.repair)["box.py"] == MARK + CLAMP.encode()
    assert main(words) == 0
    said = "Passed over: tests/test_no.py (ModuleNotFoundError: No module named 'nothing_there'), cafe.py (not UTF-8)."
    assert said in capsys.readouterr().out


def test_what_a_project_says_of_itself_is_read_behind_a_byte_order_mark() -> None:
    files = {
        "pyproject.toml": MARK + b'[project]\nname = "box"\n[tool.pytest.ini_options]\npythonpath = ["code"]\n',
        "setup.cfg": MARK + b"[options]\ninstall_requires =\n    six\n",
        "setup.py": MARK + b"setup(version='1.0')\n",
        "requirements-dev.txt": "mock\nattrs\n".encode("utf-16"),
        "PKG-INFO": MARK + b"License: MIT\n",
    }
    said = metadata.read(files)
    assert (said.name, said.version, said.licence, said.requires, said.extras) == ("box", "1.0", "MIT", ("six",), ("mock", "attrs"))
    assert said.paths == ("code",)
