"""What an import costs: numpy at most, and no side effects that the standard library does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import patchgrad

HERE = str(Path(patchgrad.__file__).parents[1])
HEAVY = (
    *(
        "torch",
        "transformers",
        "tokenizers",
        "safetensors",
        "pyarrow",
        "huggingface_hub",
        "ray",
        "cloudpickle",
        "docker",
        "jinja2",
        "vllm",
    ),
)


def loaded(module: str) -> set[str]:
    """The foreign top-level packages that a fresh interpreter holds after the import."""
    code = f"import sys; sys.path.insert(0, {HERE!r}); before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names) - {"patchgrad"}


@pytest.mark.parametrize(
    "module",
    ["patchgrad", "patchgrad.values, patchgrad.contracts", "patchgrad.errors", "patchgrad.config", "patchgrad.store"],
)
def test_the_core_loads_numpy_at_most(module: str) -> None:
    assert loaded(module) <= {"numpy"}


@pytest.mark.parametrize("module", ["patchgrad.evaluation", "patchgrad.viewer", "patchgrad.cli", "patchgrad.testing"])
def test_verbs_and_pages_load_nothing_heavy(module: str) -> None:
    assert not loaded(module) & set(HEAVY)
