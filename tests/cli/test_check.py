"""What `patchgrad check` says of a machine: what works, what does not, and the one command that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.cli import main
from patchgrad.cli.check import hardware
from patchgrad.cli.check.finding import VERDICTS, Finding, page
from patchgrad.cli.check.installed import TRAIN, Packages, packages
from patchgrad.cli.check.probe import Build

GB = 10**9


def test_it_says_the_same_to_people_and_to_machines_and_does_not_load_torch() -> None:
    twice = "import sys; from patchgrad.cli import main; print((main(['check']), main(['check', '--json'])), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", twice], capture_output=True, text=True, check=True)
    *lines, last, codes = done.stdout.splitlines()
    told = json.loads(last)
    code = 0 if told["ready"] else 1
    assert codes == f"({code}, {code}) False"
    shown = [line for line in lines if line[2:5].strip() in VERDICTS.values() and line[5:7] == "  " and line[7:8] != " "]
    assert [VERDICTS[row["verdict"]] for row in told["findings"]] == [line[2:5].strip() for line in shown]
    assert all(row["name"].startswith(line[7:].split("  ")[0].strip()) for row, line in zip(told["findings"], shown, strict=True))
    names = {row["name"] for row in told["findings"]}
    assert names >= {"torch is installed", "a sandbox opens", "memory", "disk for runs", "a GPU", "a container engine answers"}


words = st.text("abc'- /", max_size=200)


@given(st.lists(st.builds(Finding, words, st.booleans(), words, st.booleans(), words), max_size=8), st.integers(40, 120))
def test_no_line_is_wider_than_the_terminal_but_what_is_to_be_copied(found: list[Finding], width: int) -> None:
    copied = {f"         > {finding.help}" for finding in found}
    longest = max((len(word) for finding in found for word in (*finding.name.split(), *finding.note.split())), default=0)
    for line in page({"A part": found}, width):
        assert line in copied or len(line) <= max(width, 9 + longest)


def test_what_does_not_work_has_its_command_on_a_line_of_its_own() -> None:
    found = [
        Finding("memory", True, "9.0 GB free"),
        Finding("a GPU", False, "there is none", needed=False, help="buy one"),
        Finding("x", False, help="try"),
        Finding("y", False, help="try"),
    ]
    assert list(page({"This machine": found}, 80)) == [
        "",
        "This machine",
        "  yes  memory                    9.0 GB free",
        "  no   a GPU                     there is none",
        "         > buy one",
        "  NO   x",
        "  NO   y",
        "         > try",
    ]


# --- packages ------------------------------------------------------------------------------------


def fake(folder: Path, name: str, version: str, code: str = "") -> None:
    """A package that stands before the real one."""
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / f"{name}.py").write_text(code)


TORCH = """
class version: cuda, hip = {cuda!r}, None
class cuda:
    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 0)
"""


def told_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, seconds: float = 60) -> list[Finding]:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return packages(*Packages(names).told(seconds))


def test_a_build_of_torch_is_told_and_one_that_is_larger_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "cores", "torch", "2.13.0+cpu", TORCH.format(cuda=None))
    fake(tmp_path / "card", "torch", "2.13.0+cu130", TORCH.format(cuda="13.0"))
    (cores,) = told_of(tmp_path / "cores", monkeypatch, "torch")
    assert (cores.holds, cores.note) == (True, "2.13.0+cpu, a build for the cores")
    (card,) = told_of(tmp_path / "card", monkeypatch, "torch")
    assert (card.holds, card.note) == (True, "2.13.0+cu130, a build for CUDA 13.0, larger than needed where there is no GPU")


def test_another_version_of_torch_is_told_with_what_installs_the_tested_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "torch", "2.9.1", TORCH.format(cuda=None))
    (finding,) = told_of(tmp_path, monkeypatch, "torch")
    assert finding.note == "2.9.1, and patchgrad was tested with 2.13.0"
    assert finding.help == "pip install 'torch==2.13.0'"


def test_a_package_that_is_too_old_or_missing_has_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "numba", "0.9.0")
    old, missing = told_of(tmp_path, monkeypatch, "numba", "no-such-package")
    assert (old.holds, old.note, old.help) == (False, "0.9.0, and >=0.61 is needed", "pip install 'numba>=0.61'")
    assert (missing.holds, missing.help) == (False, TRAIN)


@pytest.mark.parametrize(
    ("code", "seconds", "says"),
    [
        ("raise ImportError('libcudart.so.12: cannot open shared object file')", 60, "ImportError: libcudart.so.12: cannot open"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", 60, "its import ended Python (SIGILL)"),
        ("import time; time.sleep(100)", 2, "it was not imported within 2 s"),
    ],
)
def test_a_package_that_cannot_be_imported_says_why_and_how_it_is_installed_again(
    code: str, seconds: float, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "torch", "2.13.0", code)
    (finding,) = told_of(tmp_path, monkeypatch, "torch", seconds=seconds)
    assert not finding.holds
    assert says in finding.note
    assert finding.help == "pip install --force-reinstall 'torch==2.13.0'"


# --- hardware ------------------------------------------------------------------------------------

SMI = """#!/bin/sh
case "$1" in
  --query*) echo "NVIDIA H200, 143771, 580.95.05" ;;
  *) echo "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: {cuda} |" ;;
esac
"""
CORES, CARD = Build(), Build("13.0", (), "")


def driver(folder: Path, monkeypatch: pytest.MonkeyPatch, cuda: str) -> None:
    """NVIDIA's driver, as far as its program tells of it."""
    (folder / "nvidia-smi").write_text(SMI.format(cuda=cuda))
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("cuda", "built", "says", "helps"),
    [
        ("13.0", CORES, "torch is a build for the cores", "pip install 'torch==2.13.0+cu130'"),
        ("12.8", CORES, "torch is a build for the cores", "pip install 'torch==2.13.0+cu126'"),
        ("11.4", CORES, "torch is a build for the cores", "sudo ubuntu-drivers install"),
        ("12.8", Build("13.0", (), "driver too old"), "driver too old", "pip install 'torch==2.13.0+cu126'"),
        ("13.0", None, "no torch is there", "pip install 'torch==2.13.0+cu130'"),
    ],
)
def test_a_gpu_that_torch_does_not_see_says_why_and_which_build_would(
    cuda: str, built: Build | None, says: str, helps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(tmp_path, monkeypatch, cuda)
    finding = hardware.gpu(built, "==2.13.0")
    assert finding.verdict == "not needed"
    assert finding.note.startswith(f"NVIDIA H200, 150.8 GB, driver 580.95.05, CUDA {cuda}; ")
    assert says in finding.note
    assert finding.help == helps


def test_a_gpu_that_a_variable_hides_is_told_with_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, monkeypatch, "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert hardware.gpu(CARD, "==2.13.0").help == "unset CUDA_VISIBLE_DEVICES"


def test_a_gpu_that_adds_up_works_and_no_gpu_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works = hardware.gpu(Build("13.0", (("NVIDIA H200", 140 * GB, 150 * GB),)), "==2.13.0")
    assert (works.verdict, works.note) == ("works", "NVIDIA H200 with 140.0 GB free of 150.0 GB")
    monkeypatch.setenv("PATH", str(tmp_path))
    none = hardware.gpu(CORES, "==2.13.0", pci=tmp_path)
    assert (none.verdict, none.help) == ("not needed", "")
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "vendor").write_text("0x10de\n")
    (tmp_path / "card" / "class").write_text("0x030200\n")
    assert hardware.gpu(CORES, "==2.13.0", pci=tmp_path).help == "sudo ubuntu-drivers install"


def memory(folder: Path, available: int, limit: int | None) -> Finding:
    """Of a machine with so many bytes, in a control group with such a limit."""
    (folder / "meminfo").write_text(f"MemTotal: {available // 1024} kB\nMemAvailable: {available // 1024} kB\n")
    for name, text in {"memory.max": str(limit or "max"), "memory.current": "0", "memory.stat": "inactive_file 0"}.items():
        (folder / name).write_text(text)
    return hardware.memory(folder, folder)


def test_memory_counts_the_limit_of_the_control_group(tmp_path: Path) -> None:
    assert memory(tmp_path, 64 * GB, None).holds
    limited = memory(tmp_path, 64 * GB, GB)
    assert (limited.verdict, limited.help) == ("does not", "docker run --memory 8g ...")
    assert limited.note.startswith("1.0 GB free of 64.0 GB, by the limit of this container")
    assert memory(tmp_path, GB, None).help.startswith("ps ")


def test_a_disk_that_is_full_or_closed_is_told_with_the_way_to_another(tmp_path: Path) -> None:
    assert hardware.disk("disk", lambda: tmp_path / "runs" / "one", "elsewhere").note.endswith(f"free in {tmp_path}")
    full = hardware.disk("disk", lambda: tmp_path, "elsewhere", least=1 << 60)
    assert (full.verdict, full.help) == ("does not", "elsewhere")
    assert "free in" in full.note
    closed = hardware.disk("disk", lambda: Path("/proc"), "elsewhere")
    assert closed.note.startswith("nothing can be written to /proc: ")


@pytest.mark.parametrize(("name", "helps"), [("Windows", "wsl --install"), ("Darwin", "")])
def test_another_system_than_linux_is_named(name: str, helps: str) -> None:
    linux, python = hardware.system(name)
    assert (linux.verdict, linux.help) == ("does not", helps)
    assert linux.note.startswith(f"this is {name}, and sandboxes")
    assert python.holds


def test_a_recipe_alone_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke"]) == 2
    assert "add --cluster" in capsys.readouterr().err
