"""No secret of a run through the gateway is in what it leaves: the token of an attempt, the key of an endpoint, keys of the shell's."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.agents.gateway.small_agent import OPENER
from tests.agents.gateway.test_mini_swe_agent import TOOLS, call

from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.conversation import Begun, ProgramConversation
from patchgrad.cli import main
from patchgrad.cli.export import FORMATS
from patchgrad.contracts import Tool
from patchgrad.endpoints import KEY
from patchgrad.tasks.sets import Member, save
from patchgrad.testing import ScriptedEndpoint
from patchgrad.testing.attacks.patches import CHECKS, FILES
from patchgrad.testing.endpoint import Said, Trouble
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Call, Limits, Malformed

SECRETS = {KEY: "sk-key-of-the-endpoint-4711", "WANDB_API_KEY": "key-of-a-tracker-4712", "HF_TOKEN": "key-of-a-hub-4713"}
LOOK = "env; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' '\\n' < /proc/self/environ; echo seen-by-all"
MARK = "seen-by-all"
TOKENS: list[str] = []


@dataclass
class Talkative:
    """A program that looks at its sandbox's environment; the second one breaks, and tells its token in its last words."""

    goes_on = True

    @property
    def tools(self) -> Mapping[str, Tool]:
        return TOOLS

    def parse(self, text: str) -> Call | Malformed:
        found = read(text).call
        return Call("bash", found.arguments["command"]) if found else Malformed("no command", "no command")

    def begin(self, instruction: str) -> ProgramConversation:
        def start(address: str, token: str, ended: Callable[[str, str], None]) -> Callable[[], None]:
            TOKENS.append(token)
            threading.Thread(target=_work, args=(address, token, ended, len(TOKENS)), daemon=True).start()
            return lambda: None

        return ProgramConversation(Begun(self.tools, start, {"done": "submitted"}))


def _work(address: str, token: str, ended: Callable[[str, str], None], number: int) -> None:
    def asked(path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        with OPENER.open(urllib.request.Request(address + path, json.dumps(body).encode(), headers)) as answer:
            return json.load(answer)

    messages: list[Any] = [{"role": "user", "content": "Mend it."}]
    said = asked("/v1/chat/completions", {"messages": messages})["choices"][0]["message"]
    given = asked("/sandbox", {"command": json.loads(said["tool_calls"][0]["function"]["arguments"])["command"]})
    if number == 2:
        return ended("broke", f"401 with the headers Authorization: Bearer {token}")
    messages += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": given["output"]}]
    asked("/v1/chat/completions", {"messages": messages})
    ended("done", "")


def answers(messages: Said) -> str:
    if "Answer with the word ready." in messages[-1]["content"]:
        return "ready"
    return "Done." if any(message["role"] == "assistant" for message in messages) else call(LOOK)


def texts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """All files, and the tables among them as their rows."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder), path.read_bytes()
        if path.suffix == ".parquet":
            import pyarrow.parquet

            yield path.relative_to(folder), repr(pyarrow.parquet.read_table(path).to_pylist()).encode()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_no_file_of_a_run_nor_its_log_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    TOKENS.clear()
    tasks, out = tmp_path / "set", tmp_path / "left" / "run"
    task = a_task("shop", "", a_repository(tasks / "archives", FILES), CHECKS, limits=Limits(test_seconds=20.0))
    save(tasks, [Member(task, {"report": "total([1, 2]) gives 2 instead of 3."}, "")])
    quoted = json.dumps({"error": {"message": f"The key {SECRETS[KEY]} was busy."}})
    with ScriptedEndpoint(answers) as endpoint:
        words = [
            "evaluate",
            "--policy",
            endpoint.url,
            "--model",
            "m",
            "--tasks",
            str(tasks),
            "--out",
            str(out),
            "--evaluation.attempts",
            "2",
        ]
        endpoint.troubles = [Trouble(503, quoted)]
        assert main([*words, "--agent.scaffold", f"{__name__}:Talkative", "--sandbox.concurrency", "1"]) in (0, 1)
    for form in FORMATS:
        main(["export", str(out), "--to", form, "--out", str(tmp_path / "left" / form)])
    main(["view", str(out), "--out", str(tmp_path / "left" / "page")])
    main(["track", str(out), "--to", "tensorboard", "--with", f"folder={tmp_path / 'left' / 'board'}"])
    told = capfd.readouterr()
    said = f"{told.out}{told.err}{caplog.text}"
    assert len(TOKENS) >= 2
    assert "was busy" in said
    found = list(texts(tmp_path / "left"))
    holding = {path.parts[0] if path.parts[0] != "run" else "/".join(path.parts[:2]) for path, text in found if MARK.encode() in text}
    assert {"run/journal", "run/rollouts", "page", "atif", "hf-messages"} <= holding
    for secret in (*SECRETS.values(), *TOKENS):
        assert secret not in said
        assert [path for path, text in found if secret.encode() in text] == []
