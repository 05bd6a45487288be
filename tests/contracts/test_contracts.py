"""The contracts themselves: each has a check that anybody can run, and the implementations that it names exist."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import patchgrad
from patchgrad import contracts, testing

TREE = ast.parse(inspect.getsource(contracts))
PROTOCOLS = {
    node.name: ast.get_docstring(node) or ""
    for node in TREE.body
    if isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
}
OTHERWISE = {"Sandboxes": "check_sandbox", "RewardFunction": "check_reward", "Conversation": "check_program"}
"""Where a check has another name than its contract."""
WITHOUT = {"Sandbox", "Sandboxes", "TrainablePolicy"}
"""Contracts whose docstrings name no implementation: a kind of host has its own, and the policies are named once."""


def check_of(contract: str) -> str:
    return OTHERWISE.get(contract, "check_" + re.sub(r"(?<!^)(?=[A-Z])", "_", contract).lower())


def test_there_are_as_many_contracts_as_this_test_sees() -> None:
    assert set(PROTOCOLS) >= {"Sandbox", "Tool", "Agent", "Policy", "Trainer", "Objective", "Journal", "Tracker"}
    assert set(PROTOCOLS) == {
        name for name, value in vars(contracts).items() if getattr(value, "_is_protocol", False) and name != "Protocol"
    }


@pytest.mark.parametrize("contract", [*PROTOCOLS, "Estimator"])
def test_every_contract_has_a_public_check_in_a_file_of_its_own(contract: str) -> None:
    name = check_of(contract)
    assert name in testing.__all__
    check = getattr(testing, name)
    assert check.__module__ == f"patchgrad.testing.{name.removeprefix('check_')}"
    assert "AssertionError" in (check.__doc__ or ""), "the docstring says what it raises, and the rules"
    assert f"{name}(" in (testing.__doc__ or ""), "the package's docstring lists it"


def test_every_check_is_run_by_a_test_of_its_own() -> None:
    tests = {path: path.read_text() for path in Path(__file__).parent.glob("test_*.py")}
    for name in (one for one in testing.__all__ if one.startswith("check_")):
        assert [path for path, text in tests.items() if f"{name}(" in text], f"no test of this folder runs {name}"


@pytest.mark.parametrize("contract", sorted(set(PROTOCOLS) - WITHOUT))
def test_a_contract_names_implementations_that_exist(contract: str) -> None:
    named = re.search(r"Implementations?: (.*)", PROTOCOLS[contract], re.DOTALL)
    assert named, "the docstring ends with who implements it"
    targets = re.findall(r"`([\w./]+)`", named[1])
    assert targets
    missing = [target for target in targets if not exists(target)]
    assert not missing, f"{contract} names {missing}, which are not there"


def exists(target: str) -> bool:
    """A folder or module of ours by its path, as in `policies/embedded`, or a name in one, as in `store.RunJournal`."""
    if "/" in target:
        path = Path(patchgrad.__file__).parent / target
        return path.is_dir() or path.with_suffix(".py").is_file()
    module, _, name = target.rpartition(".")
    found = importlib.util.find_spec(f"patchgrad.{module}")
    return found is not None and hasattr(importlib.import_module(f"patchgrad.{module}"), name)
