"""Statements by a model, at an endpoint that speaks OpenAI's protocol: asked once, checked, sent back with the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchgrad.cli import main
from patchgrad.endpoints import Chat
from patchgrad.errors import EndpointRefused, PolicyFault
from patchgrad.tasks.sets import Member, members, save
from patchgrad.tasks.statements.model import LEVEL, Writer, write, write_all
from patchgrad.testing.endpoint import ScriptedEndpoint, Trouble
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Message

REPAIR = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n-    return price - tax\n+    return price + tax\n"
CLEAN = "The total is too low\n\nWith a price of 2 and a tax of 1 the shop says 1, and 3 is expected."
LEAKING = "The total is too low\n\nIt should be `return price + tax`, which is easily seen."


@pytest.fixture
def serve() -> Iterator[Any]:
    with ExitStack() as stack:

        def start(*answers: str, status: int = 200) -> ScriptedEndpoint:
            troubles = [Trouble(status, "no")] * (99 if status != 200 else 0)
            last = len(answers) - 1
            script = lambda messages: answers[min(last, sum(m["role"] == "assistant" for m in messages))]  # noqa: E731
            return stack.enter_context(ScriptedEndpoint(script, troubles=troubles))

        yield start


def a_member(folder: Path) -> Member:
    repository = a_repository(folder / "archives", {"shop.py": "def total(price, tax):\n    return price - tax\n"})
    tags = {"package": "shop", "family": "op_swap", "level": "report"}
    task = a_task("shop-1", "It is wrong.", repository, fail_to_pass=("test_shop.py::test_total",), tags=tags)
    return Member(task, {"report": "It is wrong."}, REPAIR, "FAILED test_shop.py::test_total - assert 1 == 3\n")


def test_a_leaking_draft_goes_back_with_the_reason_and_the_next_is_taken(tmp_path: Path, serve: Any) -> None:
    model = serve(LEAKING, CLEAN)
    found, reasons = asyncio.run(write(a_member(tmp_path), Writer(Chat(model.url, "m", "secret"), tmp_path / "kept")))
    assert found.levels[LEVEL] == CLEAN + "\n"
    assert found.levels["report"] == "It is wrong."
    assert reasons == ["the line 'return price + tax' of the repair"]
    assert "return price + tax" in model.asked[1]["messages"][-1]["content"]
    assert model.asked[0]["authorization"] == "Bearer secret"
    assert model.asked[0]["model"] == "m"


def test_an_answer_is_asked_for_once(tmp_path: Path, serve: Any) -> None:
    model = serve(CLEAN)
    for _ in range(2):
        asyncio.run(write(a_member(tmp_path), Writer(Chat(model.url, "m"), tmp_path / "kept")))
    assert len(model.asked) == 1


def test_a_model_that_only_leaks_leaves_the_task_as_it_was(tmp_path: Path, serve: Any) -> None:
    one = a_member(tmp_path)
    found, reasons = asyncio.run(write(one, Writer(Chat(serve(LEAKING).url, "m"))))
    assert found == one
    assert len(reasons) == 3


def test_an_endpoint_that_fails_is_one_sentence(tmp_path: Path, serve: Any) -> None:
    with pytest.raises(PolicyFault, match="answered 500"):
        asyncio.run(write(a_member(tmp_path), Writer(Chat(serve("no", status=500).url, "m", pause=0.001))))
    with pytest.raises(EndpointRefused, match="name an endpoint that speaks OpenAI's protocol"):
        asyncio.run(write(a_member(tmp_path), Writer(Chat("http://127.0.0.1:1/v1", "m"))))


def test_an_answer_without_text_is_told_and_not_kept(tmp_path: Path, serve: Any) -> None:
    answer = {"message": {"content": None, "tool_calls": [{}]}, "finish_reason": "tool_calls"}
    model = serve(CLEAN)
    model.troubles.append(Trouble(200, json.dumps({"choices": [answer]})))
    writer = Writer(Chat(model.url, "m"), tmp_path / "kept")
    with pytest.raises(PolicyFault, match="answered with tool_calls and without text"):
        asyncio.run(write(a_member(tmp_path), writer))
    assert asyncio.run(write(a_member(tmp_path), writer))[0].levels[LEVEL] == CLEAN + "\n"


@pytest.mark.parametrize("trouble", [Trouble(400, "against our rules"), Trouble(200, '{"error": {"code": 400, "message": "no"}}')])
def test_a_task_that_gets_no_answer_costs_no_other_one_its_statement(tmp_path: Path, serve: Any, trouble: Trouble) -> None:
    one, model, told = a_member(tmp_path), serve(CLEAN), []
    chat = Chat(model.url, "m")
    asyncio.run(chat.ask([Message("user", "Hello")], {}))
    model.troubles.append(trouble)
    others = [replace(one, task=replace(one.task, id=f"shop-{number}")) for number in range(3)]
    found = asyncio.run(write_all(others, Writer(chat), 1, lambda member, reasons, broke: told.append((member.task.id, bool(broke)))))
    assert [LEVEL in member.levels for member in found] == [False, True, True]
    assert told == [("shop-0", True), ("shop-1", False), ("shop-2", False)]


def test_the_verb_writes_into_the_set(
    tmp_path: Path, serve: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save(tmp_path / "set", [a_member(tmp_path / "set")])
    assert main(["tasks", "write", str(tmp_path / "set"), "--endpoint", serve(LEAKING, CLEAN).url, "--model", "m", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) | {"set": ""} == {
        "set": "",
        "written": 1,
        "without": [],
        "refused_drafts": 1,
        "unanswered": {},
    }
    assert members(tmp_path / "set")[0].levels[LEVEL] == CLEAN + "\n"
    assert main(["tasks", "write", str(tmp_path / "set"), "--endpoint", "http://127.0.0.1:1/v1", "--model", "other"]) == 2
