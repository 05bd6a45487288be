"""What is found out about a package, a folder or a git repository before any of its tests ran."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tasks.shapes import TREE, write

from patchgrad.errors import TaskError
from patchgrad.tasks import archive
from patchgrad.tasks.archive import pack
from patchgrad.tasks.projects import Project, layout, metadata, open_project, source
from patchgrad.tasks.projects.furnish import prepare
from patchgrad.tasks.projects.layout import modules_of
from patchgrad.tasks.projects.project import below

SMALL = {"box.py": "def area(): ...\n", "test_box.py": "def test_area(): ...\n"}
MIT = "Permission is hereby granted, free of charge, to any person"
BSD = "Redistribution and use in source and binary forms, with or without modification. Neither the name of"


def opened(folder: Path, files: Mapping[str, str]) -> Project:
    return open_project(str(write(folder, dict(files))), folder)[0]


# --- where the parts lie -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "sources", "tests", "imported_from"),
    [
        (["box.py", "test_box.py", "setup.py"], ("box.py",), ("test_box.py",), ()),
        (["box/__init__.py", "box/core.py", "tests/test_core.py"], ("box/",), ("tests/",), ()),
        (["src/box/core.py", "tests/unit/test_core.py", "tools/x.py"], ("src/box/",), ("tests/",), ("src",)),
        (["lib/box.py", "tests/box_test.py"], ("lib/box.py",), ("tests/",), ("lib",)),
        (["box/core.py", "box/tests/test_core.py", "box/test_io.py"], ("box/",), ("box/test_io.py", "box/tests/"), ()),
        (["box/core.py", "docs/conf.py", "examples/a.py", "tests/test_core.py"], ("box/",), ("tests/",), ()),
        (["src/__init__.py", "src/core.py", "tests/test_core.py"], ("src/",), ("tests/",), ()),
        (["box/core.py", "tests/test_a.py", "other/tests/test_b.py", "test_c.py"], ("box/",), ("other/tests/", "test_c.py", "tests/"), ()),
    ],
)
def test_modules_and_tests_are_found_where_they_lie(
    paths: list[str], sources: tuple[str, ...], tests: tuple[str, ...], imported_from: tuple[str, ...]
) -> None:
    assert layout.tests_of(paths) == tests
    assert modules_of(paths, tests) == (sources, imported_from)


PLACES = st.lists(st.sampled_from(["src", "box", "tests", "test", "deep"]), max_size=3)
FILES = st.builds(lambda folders, name: "/".join([*folders, name]), PLACES, st.sampled_from(["a.py", "test_a.py", "a_test.py", "b.txt"]))


@given(st.sets(FILES, min_size=1))
def test_every_test_file_is_in_one_place_and_no_module_is_a_test(paths: set[str]) -> None:
    try:
        places = layout.tests_of(paths)
        sources, _ = modules_of(paths, places)
    except TaskError:
        return
    for path in paths:
        if path.rpartition("/")[2] in ("test_a.py", "a_test.py"):
            assert len([place for place in places if below(path, (place,))]) == 1
    project = Project("a", "1", "folder", "", "", sources, places)
    assert not [path for path in paths if project.is_source(path) and project.is_test(path)]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"box.py": "", "README": ""}, "has no tests: no file is named test_"),
        ({"tests/test_box.py": "", "setup.py": ""}, "has no Python modules beside its tests"),
        ({}, "has no tests"),
    ],
)
def test_a_folder_that_tasks_cannot_be_made_of_says_what_it_lacks(tmp_path: Path, files: dict[str, str], says: str) -> None:
    with pytest.raises(TaskError, match=says) as caught:
        opened(tmp_path, files)
    assert str(caught.value).startswith(f"{tmp_path}: ")


# --- what it says of itself ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"PKG-INFO": "Name: Box_Of.Tools\nVersion: 1.2\nLicense: BSD\n"}, ("box-of-tools", "1.2", "BSD")),
        ({"PKG-INFO": "Name: a\nVersion: 1\nLicense-Expression: Apache-2.0\nLicense: long\n"}, ("a", "1", "Apache-2.0")),
        ({"pyproject.toml": '[project]\nname = "a"\nversion = "2"\nlicense = {text = "ISC"}\n'}, ("a", "2", "ISC")),
        ({"pyproject.toml": '[tool.poetry]\nname = "a"\nversion = "3"\n', "LICENSE": MIT}, ("a", "3", "MIT")),
        ({"setup.cfg": "[metadata]\nname = a\nversion = attr: a.__version__\n", "COPYING": BSD}, ("a", "0", "BSD-3-Clause")),
        ({"pyproject.toml": "no toml [", "setup.cfg": "[metadata]\nname = a\nversion = 4\nlicense = MPL\n"}, ("a", "4", "MPL")),
        (
            {"pyproject.toml": '[project]\nname = "a"\ndynamic = ["version"]\nlicense = {file = "LICENSE.txt"}\n', "LICENSE.txt": MIT},
            ("a", "0", "MIT"),
        ),
    ],
)
def test_name_version_and_licence_are_read_from_whatever_there_is(
    tmp_path: Path, files: dict[str, str], told: tuple[str, str, str]
) -> None:
    project = opened(tmp_path, SMALL | files)
    assert (project.name, project.version, project.licence) == told


def test_a_folder_that_says_nothing_has_the_name_of_the_folder(tmp_path: Path) -> None:
    project = opened(tmp_path / "My_Box", SMALL)
    assert (project.id, project.licence, project.kind) == ("my-box-0", "", "folder")


def test_what_is_needed_and_what_is_stated_for_tests_is_told_apart() -> None:
    headers = "Name: a\nRequires-Dist: attrs>=20\nRequires-Dist: numpy; extra == 'fast'\n"
    files = {
        "PKG-INFO": headers,
        "pyproject.toml": '[project.optional-dependencies]\ntests = ["pytest-mock"]\nx = ["cython"]\n[dependency-groups]\ndev = ["ruff"]\n',
        "setup.cfg": "[options.extras_require]\nall =\n    pyyaml>=5  # for the files\n",
        "requirements-dev.txt": "-r other.txt\nfreezegun==1.0 ; python_version > '3'\nhttps://host/x.whl\n",
        "tox.ini": "[testenv]\ndeps =\n    pytest\n    py37: mock\n    six\n",
    }
    said = metadata.read({name: text.encode() for name, text in files.items()})
    assert said.requires == ("attrs>=20",)
    assert said.extras == ("numpy", "pytest-mock", "ruff", "pyyaml>=5", "freezegun==1.0", "pytest", "six")


def test_a_setup_cfg_says_what_a_package_needs() -> None:
    said = metadata.read({"setup.cfg": b"[options]\ninstall_requires =\n    attrs>=20\n    six; python_version > '3'\n"})
    assert said.requires == ("attrs>=20", "six; python_version > '3'")


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--cov"\npython_files = ["check_*.py", "test_*.py"]\n'},
        {"setup.cfg": "[tool:pytest]\naddopts = --cov\npython_files =\n    check_*.py\n    test_*.py\n"},
        {"tox.ini": "[pytest]\npython_files = check_*.py\n    test_*.py\n"},
    ],
)
def test_how_tests_are_collected_is_kept_and_options_of_the_command_line_are_not(tmp_path: Path, files: dict[str, str]) -> None:
    folder = write(tmp_path, SMALL | files)
    project, tree = open_project(str(folder), tmp_path)
    config = prepare(project, tree)["pytest.ini"].decode()
    assert "python_files = check_*.py\n    test_*.py\n" in config
    assert "--cov" not in config


def test_code_that_asks_for_its_own_version_finds_an_answer(tmp_path: Path) -> None:
    files = SMALL | {
        "box.py": "from importlib.metadata import version\n__version__ = version('box')\n",
        "PKG-INFO": "Name: box\nVersion: 7.1\n",
    }
    project, tree = open_project(str(write(tmp_path, files)), tmp_path)
    complete = prepare(project, tree)
    assert complete["box-7.1.dist-info/METADATA"] == b"Metadata-Version: 2.1\nName: box\nVersion: 7.1\n"
    assert not [path for path in prepare(project, {"box.py": b""}) if "dist-info" in path]


@pytest.mark.parametrize(
    "tool",
    [
        '[tool.setuptools_scm]\nwrite_to = "src/box/_version.py"\n',
        '[tool.setuptools_scm]\nversion_file = "src/box/_version.py"\n',
        '[tool.hatch.build.hooks.vcs]\nversion-file = "src/box/_version.py"\n',
    ],
)
def test_a_version_file_that_a_build_would_write_is_there(tmp_path: Path, tool: str) -> None:
    files = {"src/box/core.py": "", "tests/test_core.py": "", "PKG-INFO": "Name: box\nVersion: 1.2.3\n", "pyproject.toml": tool}
    _, tree = open_project(str(write(tmp_path, files)), tmp_path)
    names: dict[str, object] = {}
    exec(tree["src/box/_version.py"], names)
    assert (names["__version__"], names["version_tuple"]) == ("1.2.3", (1, 2, 3))


@pytest.mark.parametrize("place", ["../outside.py", "/tmp/outside.py", "src/../../outside.py"])
def test_a_version_file_outside_of_the_tree_is_not_written(tmp_path: Path, place: str) -> None:
    files = SMALL | {"pyproject.toml": f'[tool.setuptools_scm]\nwrite_to = "{place}"\n'}
    _, tree = open_project(str(write(tmp_path, files)), tmp_path)
    assert set(tree) == set(files)


def test_a_version_is_a_plain_part_of_a_name(tmp_path: Path) -> None:
    project = opened(tmp_path, SMALL | {"PKG-INFO": "Name: box\nVersion: ../../1 $Format$\n"})
    assert project.version == "..-..-1-Format-"


# --- folders and git repositories ----------------------------------------------------------------


def test_what_was_built_or_downloaded_is_left_out(tmp_path: Path) -> None:
    junk = [".git/config", "venv/lib/x.py", ".venv/x.py", "build/lib/box.py", "box/__pycache__/core.cpython-311.pyc", "a.egg-info/PKG-INFO"]
    junk += ["node_modules/a.js", "dist/box.whl", "box/fast.so", "lib/site-packages/other/core.py"]
    files = {"box/core.py": "", "box/build.py": "", "tests/test_core.py": "", "tests/data/a.txt": "1"}
    write(tmp_path, files | dict.fromkeys([name for name in junk if not name.startswith(".git/")], "x"))
    (tmp_path / "large.bin").write_bytes(bytes((1 << 20) + 1))
    (tmp_path / "secret").symlink_to("/etc/passwd")
    (tmp_path / "elsewhere").symlink_to(tmp_path.parent, target_is_directory=True)
    assert sorted(open_project(str(tmp_path), tmp_path)[1]) == sorted(files)


def test_a_folder_with_a_large_environment_in_it_is_not_too_large(tmp_path: Path) -> None:
    write(tmp_path, SMALL | {f"venv/lib/{number}.py": "" for number in range(9)})
    assert set(source.from_folder(tmp_path, most=5).files) == set(SMALL)
    write(tmp_path, {f"data/{number}.txt": "" for number in range(9)})
    with pytest.raises(TaskError, match="more than 5 are too many"):
        source.from_folder(tmp_path, most=5)


def test_the_same_files_have_the_same_address_wherever_they_lie(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "a" / "box", SMALL), opened(tmp_path / "b" / "box", SMALL)
    assert one == other
    assert opened(tmp_path / "c" / "box", SMALL | {"box.py": "def area(): return 1\n"}).address != one.address


def git(folder: Path, *words: str) -> str:
    told = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", "-C", str(folder), *told, *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def work_tree(tmp_path: Path) -> Path:
    folder = write(tmp_path / "box", SMALL | {".gitignore": "secrets.txt\n"})
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    write(folder, {"secrets.txt": "password"})
    return folder


def test_a_clean_work_tree_is_the_commit_it_is_at(work_tree: Path) -> None:
    project, files = open_project(str(work_tree), work_tree)
    commit = git(work_tree, "rev-parse", "HEAD")
    assert (project.kind, project.address, project.version) == ("git", commit, commit[:10])
    assert set(files) == {*SMALL, ".gitignore"}


def test_a_work_tree_with_changes_is_a_folder_of_what_git_does_not_ignore(work_tree: Path) -> None:
    write(work_tree, {"new.py": "x = 1\n", "box.py": "def area(): return 2\n"})
    project, files = open_project(str(work_tree), work_tree)
    assert project.kind == "folder"
    assert files["box.py"] == b"def area(): return 2\n"
    assert set(files) == {*SMALL, ".gitignore", "new.py"}


def test_a_bare_repository_is_cloned(work_tree: Path, tmp_path: Path) -> None:
    write(work_tree, {"pyproject.toml": '[project]\nname = "box"\nversion = "1.0"\n'})
    git(work_tree, "add", ".")
    git(work_tree, "commit", "--quiet", "-m", "second")
    subprocess.run(["git", "clone", "--quiet", "--bare", str(work_tree), str(tmp_path / "shelf.git")], check=True)
    url, commit = f"file://{tmp_path}/shelf.git", git(work_tree, "rev-parse", "HEAD")
    project, files = open_project(url, tmp_path)
    assert (project.kind, project.address, project.location) == ("git", commit, url)
    assert project.id == f"box-1.0+{commit[:8]}"
    assert "secrets.txt" not in files


def test_an_address_where_nothing_is_says_what_git_says(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"cannot be cloned: .*does not"):
        open_project(f"file://{tmp_path}/nothing.git", tmp_path)


# --- distributions -------------------------------------------------------------------------------


def kept(cache: Path, name: str, data: bytes) -> str:
    """A distribution in the cache; its hash."""
    sha256 = hashlib.sha256(data).hexdigest()
    (cache / "sdists" / sha256).mkdir(parents=True)
    (cache / "sdists" / sha256 / name).write_bytes(data)
    return sha256


def packed(files: Mapping[str, str]) -> bytes:
    return pack({f"box-1.0/{name}": text.encode() for name, text in files.items()})


def test_a_pinned_distribution_is_taken_from_the_cache(tmp_path: Path) -> None:
    sha256 = kept(tmp_path, "shapes-1.0.tar.gz", packed(TREE | {"PKG-INFO": "Name: shapes\nVersion: 1.0\n", "build/lib/x.py": ""}))
    project, files = open_project("shapes==1.0", tmp_path, sha256)
    assert (project.id, project.kind, project.address) == ("shapes-1.0", "sdist", sha256)
    assert (project.sources, project.tests, project.paths) == (("src/shapes/",), ("tests/",), ("src",))
    assert set(files) == {*TREE, "PKG-INFO"}


def test_a_distribution_may_be_a_zip(tmp_path: Path) -> None:
    sha256 = kept(tmp_path, "box-1.0.zip", zipped({f"box-1.0/{name}": text for name, text in SMALL.items()}))
    assert set(open_project("box==1.0", tmp_path, sha256)[1]) == set(SMALL)


def test_a_distribution_of_another_hash_is_refused(tmp_path: Path) -> None:
    sha256 = kept(tmp_path, "box-1.0.tar.gz", packed(SMALL))
    (tmp_path / "sdists" / sha256 / "box-1.0.tar.gz").write_bytes(packed(TREE))
    with pytest.raises(TaskError, match="is not the pinned one: its SHA-256 is"):
        open_project("box==1.0", tmp_path, sha256)


def zipped(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return buffer.getvalue()


def tarred(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, text in SMALL.items():
            member = tarfile.TarInfo(f"box-1.0/{path}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["box-1.0/../../evil.py", "/etc/evil.py", "../evil.py"])
@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_a_distribution_that_reaches_out_of_its_folder_is_refused(tmp_path: Path, name: str, form: str) -> None:
    data = zipped({f"box-1.0/{path}": text for path, text in SMALL.items()} | {name: "x"}) if form == "zip" else tarred(name)
    sha256 = kept(tmp_path, f"box-1.0.{form}", data)
    with pytest.raises(TaskError, match="outside its tree"):
        open_project("box==1.0", tmp_path, sha256)


def test_a_zip_that_is_none_or_fills_the_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no readable zip"):
        open_project("box==1.0", tmp_path, kept(tmp_path, "box-1.0.zip", b"no zip at all"))
    with pytest.raises(TaskError, match="unpacks to more than"):
        archive.unzip(zipped({"box-1.0/box.py": "x" * 11}), largest=10)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_in_a_distribution_are_passed_over(tmp_path: Path, kind: bytes) -> None:
    sha256 = kept(tmp_path, "box-1.0.tar.gz", tarred("box-1.0/link.py", kind))
    assert set(open_project("box==1.0", tmp_path, sha256)[1]) == set(SMALL)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["./nothing-here", "/nothing/here", "a package", "box>=1"])
def test_words_that_name_nothing_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(write(tmp_path / "empty", {}).parent)
    with pytest.raises(TaskError, match="no such folder, and it is no package"):
        open_project(words, tmp_path)


@pytest.mark.parametrize("name", ["pytest", "Sorted_Containers", "hypothesis"])
def test_what_every_sandbox_has_is_refused(tmp_path: Path, name: str) -> None:
    expected = name.lower().replace("_", "")
    with pytest.raises(TaskError, match="its original could be read there"):
        opened(tmp_path, SMALL | {"PKG-INFO": f"Name: {expected}\nVersion: 1\n"})
