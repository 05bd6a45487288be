"""vLLM's server for tests: a double that speaks its protocol, and itself where PATCHGRAD_VLLM names a Python that has it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.policies.vllm import Installed, VllmPolicy

torch.set_num_threads(1)
TOKENIZER = ChatTokenizer.train(["the tests fail", "exit code 1"], 300)
NETWORK = Decoder(DecoderConfig(TOKENIZER.vocabulary, 64, 2, 2, 2, 32, intermediate=64, eos=(2,)), 0)
REAL = os.environ.get("PATCHGRAD_VLLM", "")
WHICH = ("double", "vLLM")
DOUBLE = Path(__file__).with_name("vllm_double.py")


def called(which: str, folder: Path) -> str:
    """The program that is called as Python is for vLLM: of `WHICH` the double, made in a folder, or the real one where there is one."""
    if which == "vLLM" and not REAL:
        pytest.skip("PATCHGRAD_VLLM names no Python that has vLLM")
    return REAL if which == "vLLM" else double(folder)


def double(folder: Path, **environment: str) -> str:
    """A program that is called as Python is for vLLM."""
    told = "".join(f"export {name}={value}\n" for name, value in environment.items())
    program = folder / "python"
    program.write_text(f'#!/bin/sh\n{told}exec "{sys.executable}" "{DOUBLE}" "$@"\n')
    program.chmod(0o755)
    return str(program)


def opened(python: str, network: Decoder = NETWORK, within: bool = False) -> VllmPolicy:
    own = ("--dtype", "float32", "--kv-cache-memory-bytes", str(64 << 20), "--enforce-eager", "--no-enable-chunked-prefill")
    vllm, weights = Installed(python, own if python == REAL else ()), dict(network.named_parameters())
    return VllmPolicy(network.config, weights, TOKENIZER, context=400, vllm=vllm, within=within)


def children(policy: VllmPolicy) -> list[int]:
    """The server's process, which its keeper has started."""
    return [int(pid) for pid in Path(f"/proc/{policy.pid}/task/{policy.pid}/children").read_text().split()]
