"""The built wheel, as who has nothing else gets it: installed into an empty environment, and run from an empty folder.

What it needs comes from the package index; where there is none the tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from tests.runs.test_boards import a_run

import patchgrad

pytestmark = pytest.mark.slow
PROJECT = Path(__file__).parents[2]
READ = ("pyproject.toml", "README.md", "LICENSE")
"""What a build reads, besides the code."""

PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
PAGE_AND_GATEWAY = 5_000_000
"""Bytes that the extras of the page and the gateway may take, with the bytecode that pip writes."""

NEEDS = {
    "train tiny": "train",
    "plan tiny": "train",
    "models get smollm2-135m-instruct": "train",
    "audit {run}": "train",
    "replay {run} one": "train",
    "view {run} --no-open": "view",
    "query {run} select": "query",
    "track {run} --to tensorboard": "tensorboard",
    "track {run} --to wandb": "wandb",
    "track {run} --to trackio": "trackio",
    "check --cluster auto": "cluster",
    "completion bash": "completion",
}
"""By a command line the extra that it needs."""


def around() -> dict[str, str]:
    """The environment without anything that the tests' own interpreter was told: else pip takes the source for what is installed."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PATCHGRAD"))}


def pip(*words: str) -> None:
    """Where pip fails its own words say why."""
    done = subprocess.run([*PIP, *words], env=around(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy, where no file of an earlier build is taken along."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    if subprocess.run(
        [*PIP, "download", "--no-deps", "-d", str(source / "tried"), "setuptools"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no package index answers")
    for name in READ:
        shutil.copy(PROJECT / name, source / name)
    shutil.copytree(PROJECT / "src" / "patchgrad", source / "src" / "patchgrad", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    pip("wheel", "--no-deps", "-w", str(built), str(source))
    (made,) = built.iterdir()
    return made


class Installed:
    """An environment with the wheel, and an empty folder that its commands run in."""

    def __init__(self, place: Path, wheel: str) -> None:
        self.folder, self._bin = place / "empty", place / "environment" / "bin"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self._bin.parent)], check=True)
        pip("--python", str(self._bin / "python"), "install", wheel)

    def run(self, *words: str, program: str = "patchgrad") -> subprocess.CompletedProcess[str]:
        """What a command comes to, whatever its exit code."""
        command, env = [str(self._bin / program), *words], around()
        env["PATH"] = f"{self._bin}:{env['PATH']}"
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=900, check=False)

    def said(self, *words: str, program: str = "patchgrad") -> str:
        """What a command that succeeds prints."""
        done = self.run(*words, program=program)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("core"), str(wheel))


@pytest.fixture(scope="module")
def trainer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("trainer"), f"{wheel}[train]")


def test_every_file_of_the_package_is_in_the_wheel_and_no_other(wheel: Path) -> None:
    root = Path(patchgrad.__file__).parent
    files = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    held = {Path("patchgrad", file).as_posix() for file in files if not any(p == "__pycache__" or p.startswith(".") for p in file.parts)}
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == held


def test_the_core_brings_few_packages(core: Installed) -> None:
    brought = "import importlib.metadata as m; print(*(d.name.lower() for d in m.distributions()))"
    assert set(core.said("-c", brought, program="python").split()) == {"markdown-it-py", "mdurl", "numpy", "patchgrad", "pygments", "rich"}


def test_the_core_says_its_version_and_its_verbs(core: Installed) -> None:
    assert core.said("--version") == f"patchgrad {patchgrad.__version__}\n"
    assert core.said("-m", "patchgrad", "--version", program="python") == f"patchgrad {patchgrad.__version__}\n"
    assert "patchgrad train smoke" in core.said("--help")
    assert 'name = "tiny"' in core.said("train", "tiny", "--print", "full")


def test_the_core_is_imported_from_where_it_was_installed(core: Installed) -> None:
    told = core.said("-c", "import patchgrad as pg; print(pg.__file__, pg.recipe('tiny').name)", program="python")
    assert "site-packages" in told
    assert told.endswith(" tiny\n")


def test_the_check_of_the_core_names_the_one_extra_that_training_lacks(core: Installed) -> None:
    done = core.run("check")
    assert done.returncode == 1
    assert "pip install 'patchgrad[train]'" in done.stdout
    assert json.loads(core.run("check", "--json").stdout.splitlines()[-1])["ready"] is False


@pytest.mark.parametrize("line", NEEDS)
def test_a_command_without_its_extra_is_one_sentence_that_names_it(core: Installed, tmp_path: Path, line: str) -> None:
    a_run(tmp_path / "run")
    done = core.run(*line.format(run=tmp_path / "run").split())
    assert done.returncode == 2, done.stdout + done.stderr
    (said,) = done.stderr.splitlines()
    assert said.startswith("patchgrad: ")
    assert f"pip install 'patchgrad[{NEEDS[line]}]'" in said


def test_the_page_and_the_gateway_take_five_megabytes_at_most(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (named,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        asked = Parser().parsestr(archive.read(named).decode()).get_all("Requires-Dist", [])
    wanted = {line.partition(";")[0].strip() for line in asked if 'extra == "view"' in line or 'extra == "gateway"' in line}
    pip("install", "--target", str(tmp_path), *wanted)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= PAGE_AND_GATEWAY


def test_with_the_extra_that_trains_a_policy_is_trained_and_shown(trainer: Installed) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    told = json.loads(trainer.said("train", "tiny", "--run", "run", "--json").splitlines()[-1])
    assert "base" in [report["name"] for report in told["reports"]]
    page = trainer.folder / told["page"]
    assert "base" in page.read_text()
    assert trainer.said("audit", "run")
    assert [path.name for path in trainer.folder.iterdir()] == ["run"]
