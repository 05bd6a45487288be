"""Whether the processor multiplies bfloat16, and roots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from patchgrad.networks import rounding


@pytest.mark.skipif(not hasattr(torch.cpu, "get_capabilities"), reason="this torch does not tell what a processor has")
def test_what_linux_says_of_the_processor_torch_says_too() -> None:
    told = torch.cpu.get_capabilities()
    assert rounding.instructed() == any(told.get(name) for name in rounding.INSTRUCTIONS)


@pytest.mark.parametrize(
    ("told", "multiplies"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16\n", True),
        ("flags\t\t: fpu amx_bf16 amx_tile\n", True),
        ("flags\t\t: fpu avx2 avx512f\n", False),
        ("Features\t: fp asimd bf16\n", False),
        ("", False),
    ],
)
def test_a_processor_that_does_not_say_so_is_taken_for_one_that_does_not(told: str, multiplies: bool, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(told)
    assert rounding.instructed(tmp_path / "cpuinfo") == multiplies
    assert not rounding.instructed(tmp_path / "nothing")


@pytest.mark.parametrize(("bound", "multiplies"), [("AVX2", False), ("avx512_core", False), ("AVX512_CORE_BF16", True), ("ALL", True)])
def test_instructions_that_a_user_keeps_onednn_from_are_none(
    bound: str, multiplies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx512f avx512_bf16\n")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", bound)
    assert rounding.instructed.__wrapped__(tmp_path / "cpuinfo") == multiplies


@pytest.mark.parametrize(("instructed", "gain", "multiplies"), [(True, 2.3, True), (True, 0.5, False), (False, 2.3, False)])
def test_instructions_that_are_no_faster_are_not_used(
    instructed: bool, gain: float, multiplies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounding, "instructed", lambda: instructed)
    monkeypatch.setattr(rounding, "gain", lambda: gain)
    assert rounding.multiplies_bfloat16.__wrapped__() == multiplies


@pytest.mark.parametrize("before", ["0", "1"])
def test_what_was_decided_holds_for_this_process_and_for_those_that_begin_meanwhile(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "instructed", lambda: True)
    monkeypatch.setattr(rounding, "gain", lambda: 1.0 if before == "1" else 2.0)
    for quick in (True, False):
        with rounding.decided(quick) as found:
            assert (found, rounding.multiplies_bfloat16(), os.environ[rounding.DECIDED]) == (quick, quick, str(int(quick)))
        assert rounding.DECIDED not in os.environ
        first, second = rounding.decided(quick), rounding.decided(quick)
        for one in (first, second):
            one.__enter__()
        for one in (first, second):  # of two threads
            one.__exit__(None, None, None)
        os.environ.pop(rounding.DECIDED, None)
        rounding.multiplies_bfloat16.cache_clear()
        assert rounding.multiplies_bfloat16() == (before == "0"), "as it is found"
    with rounding.decided(None) as found:
        assert (found, os.environ[rounding.DECIDED]) == (before == "0", str(int(before == "0")))
    rounding.multiplies_bfloat16.cache_clear()


def test_a_processor_without_the_instructions_does_not_round_whatever_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "instructed", lambda: False)
    with rounding.decided(True) as found:
        assert not found
    rounding.multiplies_bfloat16.cache_clear()


def test_neighbours_hardly_matter_to_what_is_found() -> None:
    alone = rounding.gain()
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        beside = [rounding.gain() for _ in range(3)]
    finally:
        for process in burning:
            process.kill()
            process.wait()
    assert all(0.6 < found / alone < 1.6 for found in beside)


def test_what_is_timed_is_left_as_it_was() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert rounding.gain() > 0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_a_root_is_one_to_the_last_bits_and_that_of_nothing_is_nothing() -> None:
    numbers = torch.logspace(-37, 37, 2000)
    assert torch.allclose(rounding.root(numbers).double(), numbers.double() ** 0.5, rtol=3e-7, atol=0)
    assert rounding.root(torch.zeros(3)).tolist() == [0, 0, 0]
