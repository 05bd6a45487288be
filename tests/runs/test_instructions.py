"""A run computes with all instructions of the processor, or with those that every x86-64 processor has, and then the same everywhere."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import Machine
from patchgrad.runs.instructions import COMMON, begin, begun

ROOT = Path(__file__).resolve().parents[2]
ARITHMETIC = ["-m", "tests.runs.arithmetic"]
VERSIONS = {"torch": "2.13.0", "numpy": "2.4.6", "numba": "0.68.1", "llvmlite": "0.50.0"}
DIGEST = "6e47aed3d8ce8ca0536c317f49791c41e3ea75bb0939e53f4f665f5f11310046"
"""What `tests/runs/arithmetic.py` comes to with these versions, on an AMD EPYC with AVX-512 and on an emulated Intel Nehalem of 2008."""

needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the common instructions are those of x86-64")


def said(*command: str, **environment: str) -> str:
    return subprocess.run(command, env=os.environ | environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@needs_x86
def test_common_instructions_compute_the_same_on_every_processor(tmp_path: Path) -> None:
    """The processors are those that this test is run on: the digest is written down."""
    if others := [f"{name} {version(name)}" for name, known in VERSIONS.items() if version(name).partition("+")[0] != known]:
        pytest.skip(f"the digest is that of other versions than {', '.join(others)}")
    assert said(sys.executable, *ARITHMETIC, NUMBA_CACHE_DIR=str(tmp_path), **COMMON) == DIGEST


@needs_x86
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user, which emulates another processor")
@pytest.mark.parametrize("processor", ["Nehalem-v1", "Haswell-v1"])
def test_an_emulated_processor_computes_what_this_one_does(processor: str, tmp_path: Path) -> None:
    here = said(sys.executable, *ARITHMETIC, NUMBA_CACHE_DIR=str(tmp_path / "here"), **COMMON)
    there = said("qemu-x86_64", "-cpu", processor, sys.executable, *ARITHMETIC, NUMBA_CACHE_DIR=str(tmp_path / "there"), **COMMON)
    assert there == here


@needs_x86
def test_a_process_that_lacks_the_settings_is_started_again_with_them_and_with_its_own_words() -> None:
    code = (
        "import os, sys\n"
        "from patchgrad.recipes.recipe import Machine\n"
        "from patchgrad.runs.instructions import COMMON, begin\n"
        "begin(Machine(instructions='common'))\n"
        "print(all(os.environ[name] == value for name, value in COMMON.items()), sys.argv[1:])"
    )
    assert said(sys.executable, "-c", code, "a word", "--b") == "True ['a word', '--b']"


@needs_x86
def test_a_library_user_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"before Python starts: use `patchgrad train`, or begin with env .*MKL_CBWR='COMPATIBLE'"):
        begun(Machine(instructions="common"))
    for name, value in COMMON.items():
        monkeypatch.setenv(name, value)
    begun(Machine(instructions="common"))
    begin(Machine(instructions="common"))  # and is not started again


def test_other_processors_and_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match="another GPU rounds otherwise"):
        Machine(gpus=1, instructions="common")
    with pytest.raises(ConfigError, match="is for x86-64 processors, and this is aarch64"):
        begin(Machine(instructions="common"), "aarch64")
    begin(Machine(), "aarch64")
    begun(Machine(), "aarch64")
