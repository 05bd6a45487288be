"""Our tasks in verifiers' own evaluation, with verifiers itself, which `make guests` installs.

The model is a script behind an address that speaks OpenAI's chat completions. Of ten rollouts two break, each in its own way.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.guests.environments import told

from patchgrad.errors import MissingDependency
from patchgrad.guests.tools import schemas, spelt
from patchgrad.values import Call, Malformed


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the traces of three evaluations say."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    folder = tmp_path_factory.mktemp("verifiers")
    said: dict[str, Any] = told("verifiers", Path(__file__).with_name("with_verifiers.py"), str(folder), HOME=str(folder))
    return said


@pytest.mark.slow
def test_what_was_repaired_and_submitted_is_rewarded_and_nothing_else_is(found: dict[str, Any]) -> None:
    rewards = {name: trace["rewards"].get("hidden_tests") for name, trace in found["traces"].items() if trace["ok"]}
    assert rewards == {"repaired": 1, "untouched": 0, "forged": 0, "silent": 0, "endless": 0, "slow": 0, "clumsy": 1, "long": 0}
    assert "+    return sum(prices)\n" in found["traces"]["repaired"]["patch"]
    assert found["traces"]["untouched"]["patch"] == ""
    assert found["own"]["rewards"] == {"hidden_tests": 9}, "a reward of the user's own"


@pytest.mark.slow
def test_a_rollout_ends_at_the_limits_of_verifiers_with_what_it_has_done(found: dict[str, Any]) -> None:
    stops = {name: (trace["stop_condition"], trace["turns"]) for name, trace in found["traces"].items()}
    assert stops["repaired"] == ("agent_completed", 3)
    assert stops["endless"] == ("max_turns", 12)
    assert stops["slow"] == ("agent_timeout", 2)
    assert stops["long"] == ("agent_completed", 2), "the conversation did not fit any more"
    for name in ("endless", "slow", "long"):
        assert "+    return sum(prices)\n" in found["traces"][name]["patch"]


@pytest.mark.slow
def test_one_bad_task_is_an_error_of_its_own_rollout(found: dict[str, Any]) -> None:
    broken = {name: trace for name, trace in found["traces"].items() if not trace["ok"]}
    assert {name: trace["stop_condition"] for name, trace in broken.items()} == {"gone": "task_error", "refused": "provider_error"}
    assert "lost.tar cannot be read" in broken["gone"]["errors"][0]
    assert not any(trace["rewards"] for trace in broken.values()), "no judgement of the model"


@pytest.mark.slow
def test_the_model_is_told_what_the_tools_answer_and_what_is_wrong_with_a_call(found: dict[str, Any]) -> None:
    assert found["tools"] == ["shell", "open", "search_file", "create", "edit", "replace", "submit"]
    heard = "\n".join(found["heard"])
    assert "2:    return sum(prices)\n" in heard
    assert "The arguments of shell are no JSON" in heard
    assert "The tool edit needs the argument first, and needs the argument last, and needs the argument text." in heard
    assert "There is no tool fly; there are shell, open, " in heard


@pytest.mark.slow
def test_a_trace_holds_nothing_hidden(found: dict[str, Any]) -> None:
    told = "".join(trace["whole"] for name, trace in found["traces"].items() if name != "forged")
    assert "one too low" in told
    assert "test_total" not in told


@pytest.mark.slow
def test_all_sandboxes_are_closed_when_an_evaluation_ends(found: dict[str, Any]) -> None:
    assert found["open"] == []


@pytest.mark.slow
def test_a_harness_that_works_elsewhere_is_refused(found: dict[str, Any]) -> None:
    assert "The harness null works elsewhere than in the task's sandbox" in found["astray"]["errors"][0]
    assert not found["astray"]["rewards"]


def test_without_the_package_one_sentence_says_what_to_install() -> None:
    if importlib.util.find_spec("verifiers") is not None:
        pytest.skip("verifiers is installed here")
    with pytest.raises(MissingDependency, match="verifiers is not installed, and tasks in it need it: pip install verifiers"):
        importlib.import_module("patchgrad.guests.verifiers")


def test_a_call_of_a_function_is_spelt_as_our_tools_read_it() -> None:
    for schema in schemas():
        assert schema["function"]["description"]
        assert all(part["description"] for part in schema["function"]["parameters"]["properties"].values())
    assert spelt("open", '{"path": "a b.py"}') == Call("open", "'a b.py' 1")
    assert spelt("submit", "") == Call("submit", "")
    for name, arguments, says in (
        ("fly", "{}", "There is no tool fly"),
        ("shell", "[]", "no object"),
        ("shell", '{"command": 3}', "The argument command of shell is to be a text."),
        ("shell", '{"command": "ls", "self": 3}', "The tool shell has no argument self."),
        ("_call", '{"tool": "a", "arguments": "b"}', "There is no tool _call"),
    ):
        wrong = spelt(name, arguments)
        assert isinstance(wrong, Malformed)
        assert says in wrong.message
