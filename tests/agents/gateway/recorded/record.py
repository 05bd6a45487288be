"""Writes anew what agents of others sent, one JSON file for each row of `ROWS`, beside this file.

    python tests/agents/gateway/recorded/record.py /opt/agents [claude_code ...]

`make agents` installs them below `.venv/agents`. Each agent runs unchanged in a folder of its own, and asks the server that
`patchgrad serve` starts, behind which a policy follows a script. The bodies are kept as they came but for what `scrubbed` takes out: long
texts, which are the agent's own, most tools, and whatever names a session, a date or a machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from patchgrad.agents.gateway.serving import app
from patchgrad.agents.gateway.visits import Allowance, Visits
from patchgrad.links.listening import Place
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.values import Sampling

HERE = Path(__file__).parent
LONGEST = 160  # letters of a text that is kept as it is
INSTRUCTION = "The total of prices is one too low."
SHOP = "def total(prices):\n    return sum(prices) - 1\n"
REPAIR = "sed -i 's/ - 1//' shop.py"
EDIT = "shop.py\n```python\n<<<<<<< SEARCH\n    return sum(prices) - 1\n=======\n    return sum(prices)\n>>>>>>> REPLACE\n```\n"
KEPT = ("x-stainless-retry-count",)  # headers
NAMES = ("prompt_cache_key", "user_id", "session_id", "safety_identifier", "client_metadata")
ODD = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,}|ses_\w+")
CALLED = ("bash", "Bash", "exec_command")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
CLAUDE = {
    "ANTHROPIC_BASE_URL": "{address}",
    "ANTHROPIC_AUTH_TOKEN": "{token}",
    "ANTHROPIC_MODEL": "patchgrad",
    "ANTHROPIC_SMALL_FAST_MODEL": "patchgrad",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
    "IS_SANDBOX": "1",
}
OWN_WORDS = {**CLAUDE, "CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}
CLAUDE_ARGV = ("{agents}/node_modules/.bin/claude", "-p", INSTRUCTION, "--permission-mode", "bypassPermissions")
MINI_ARGV = (
    *("{agents}/mini-swe-agent/bin/python", "-m", "minisweagent.run.mini", "--yolo", "--exit-immediately", "-t", INSTRUCTION),
    *("-m", "openai/patchgrad", "-c", "mini.yaml", "-c", "model.model_kwargs.api_base={address}/v1"),
    *("-c", "model.model_kwargs.api_key={token}", "-c", "model.cost_tracking=ignore_errors", "-c", "agent.cost_limit=0"),
)
MINI = {"MSWEA_CONFIGURED": "true", "MSWEA_SILENT_STARTUP": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
OPENCODE = {
    "model": "own/patchgrad",
    "provider": {
        "own": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{address}/v1", "apiKey": "{token}"},
            "models": {"patchgrad": {}},
        }
    },
    "snapshot": False,
    "lsp": False,
    "autoupdate": False,
    "share": "disabled",
}


def call(name: str, thought: str = "So.", **arguments: Any) -> str:
    return f"{thought}\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@dataclass(frozen=True)
class Row:
    """A program, what starts it, and what the policy `says`; so many of its first requests are answered by 503."""

    program: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    says: Sequence[str]
    refused: int = 0
    note: str = ""
    calls_tools: bool = True


DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
THOUGHT = "<think>\nI look first.\n</think>\n\nSo."
ROWS = {
    "mini_swe_agent": Row("mini-swe-agent 2.4.6", MINI_ARGV, MINI, [call("bash", command=one) for one in ("cat shop.py", REPAIR, DONE)]),
    "mini_swe_agent_thoughts": Row(
        "mini-swe-agent 2.4.6",
        MINI_ARGV,
        MINI,
        [call("bash", THOUGHT, command=one) for one in ("cat shop.py", REPAIR, DONE)],
        note="The policy thinks; the program sends its answers back without.",
    ),
    "mini_swe_agent_retried": Row(
        "mini-swe-agent 2.4.6",
        (*MINI_ARGV, "-c", "model.model_kwargs.max_retries=2"),
        MINI,
        [call("bash", command=DONE)],
        refused=1,
        note="The first request was answered by 503; the program's client marks the second.",
    ),
    "codex": Row(
        "Codex CLI 0.169.0",
        (
            *("{agents}/node_modules/.bin/codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            *("-c", "model_provider=own", "-c", "model=patchgrad", "-c"),
            'model_providers.own={name="own", base_url="{address}/v1", env_key="KEY", wire_api="responses"}',
            INSTRUCTION,
        ),
        {"KEY": "{token}"},
        [call("exec_command", cmd="cat shop.py"), call("exec_command", cmd=REPAIR), "Done."],
    ),
    "claude_code": Row(
        "Claude Code 2.1.197",
        CLAUDE_ARGV,
        OWN_WORDS,
        [call("Bash", command="cat shop.py", description="look"), call("Bash", command=REPAIR, description="mend"), "Done."],
    ),
    "claude_code_attributed": Row(
        "Claude Code 2.1.197",
        CLAUDE_ARGV,
        CLAUDE,
        [call("Bash", command="cat shop.py", description="look"), call("Bash", command=REPAIR, description="mend"), "Done."],
        note="CLAUDE_CODE_ATTRIBUTION_HEADER is not set, so its first line names its version.",
    ),
    "claude_code_retried": Row(
        "Claude Code 2.1.197",
        CLAUDE_ARGV,
        OWN_WORDS,
        ["Done."],
        refused=1,
        note="The first request was answered by 503; the program does not mark the second.",
    ),
    "opencode": Row(
        "OpenCode 1.18.33",
        ("{agents}/node_modules/.bin/opencode", "run", INSTRUCTION),
        {
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE),
        },
        [call("bash", command="cat shop.py", description="look"), call("bash", command=REPAIR, description="mend"), "Done."],
    ),
    "aider": Row(
        "aider 0.86.2",
        (
            *("{agents}/aider/bin/python", "-m", "aider", "--model", "openai/patchgrad", "--message", INSTRUCTION),
            *("--edit-format", "diff", "--no-git", "--yes-always", "--analytics-disable", "--no-check-update"),
            *("--no-show-release-notes", "--no-show-model-warnings", "shop.py"),
        ),
        {"OPENAI_API_BASE": "{address}/v1", "OPENAI_API_KEY": "{token}", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        ["I would edit it.\n\n" + EDIT.replace("sum(prices) - 1", "sum(price)"), EDIT],
        note="It asks again with its files told behind what was said, in place of before.",
        calls_tools=False,
    ),
}


class Recorder:
    """The application, and all that it was asked."""

    def __init__(self, row: Row, place: Place) -> None:
        self.requests: list[dict[str, Any]] = []
        self._row, self._left = row, row.refused
        self._app = app(Visits(ScriptedPolicy(self._says), Sampling(4_000, 5, purpose="evaluation"), Allowance(calls=8)), place)
        self._script, self._aside = iter(row.says), False

    def _says(self, session: str, number: int) -> str:
        return "A title" if self._aside else next(self._script, "Done.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        if scope["method"] == "POST":
            told = json.loads(body)
            self._aside = self._row.calls_tools and not told.get("tools")
            headers = {name: request.headers[name] for name in KEPT if name in request.headers}
            self.requests.append({"path": scope["path"], "headers": headers, "body": told})
            if self._left:
                self._left -= 1
                return await Response('{"error": {"message": "busy"}}', 503, media_type="application/json")(scope, receive, send)

        async def again() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


@contextmanager
def listening(row: Row) -> Iterator[tuple[Recorder, str]]:
    """The recorder and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = Place(port=free.getsockname()[1])
    recorder = Recorder(row, place)
    server = uvicorn.Server(uvicorn.Config(recorder, port=place.port, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield recorder, place.address
    server.should_exit = server.force_exit = True
    thread.join()


def recorded(row: Row, agents: str) -> list[dict[str, Any]]:
    """What the program of a row has sent, scrubbed."""
    with listening(row) as (recorder, address), tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as work:
        (Path(work) / "shop.py").write_text(SHOP)
        places = {"{agents}": agents, "{address}": address, "{token}": "any"}

        def filled(text: str) -> str:
            for word, meant in places.items():
                text = text.replace(word, meant)
            return text

        local = {"HOME": home, "PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "TERM": "dumb"}
        variables = local | {name: filled(value) for name, value in row.environment.items()}
        words = [filled(word) for word in row.argv]
        done = subprocess.run(words, cwd=work, env=variables, stdin=subprocess.DEVNULL, timeout=180, capture_output=True, check=False)
        if not recorder.requests:
            raise SystemExit(f"{row.program} asked nothing: {done.stderr.decode()[-500:]}")
        private = {work: "/testbed", home: "/root", agents: "/opt/agents", address: "ADDRESS"}
        return [scrubbed(one, private) for one in recorder.requests]


def scrubbed(told: Any, places: Mapping[str, str], name: str = "") -> Any:
    """What was sent without what is the program's own or the machine's. Texts that were equal are equal."""
    if name in NAMES:
        return "ID"
    if isinstance(told, dict):
        return {key: scrubbed(value, places, key) for key, value in told.items()}
    if isinstance(told, list):
        return [_tool(one) for one in _few(told)] if name == "tools" else [scrubbed(one, places, name) for one in told]
    if not isinstance(told, str):
        return told
    for place, meant in places.items():
        told = told.replace(place, meant)
    told = DATE.sub("2026-01-01", ODD.sub("ID", told))
    return told if len(told) <= LONGEST else f"({len(told):,} letters, {hashlib.blake2b(told.encode(), digest_size=3).hexdigest()})"


def _few(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first tools, those that are called, and those that are no functions."""
    odd = [tool for tool in tools[3:] if tool.get("name") in CALLED or tool.get("type") not in (None, "function", "custom")]
    return [*tools[:3], *odd, *(tool for tool in tools[3:] if tool.get("function", {}).get("name") in CALLED)]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool by its name and the names of its arguments, in the shape that it came in."""
    if isinstance(tool.get("function"), dict):
        return {"type": tool["type"], "function": _tool(tool["function"])}
    kept: dict[str, Any] = {key: tool[key] for key in ("type", "name", "strict") if key in tool}
    for key in ("parameters", "input_schema"):
        if isinstance(tool.get(key), dict):
            properties = {name: {"type": one.get("type", "object")} for name, one in tool[key].get("properties", {}).items()}
            kept |= {"description": "What it does.", key: {"type": "object", "properties": properties}}
    return kept


def main() -> None:
    """Records the rows that are named, or all."""
    agents, *names = sys.argv[1:]
    for name in names or ROWS:
        row = ROWS[name]
        found = {"program": row.program, "note": row.note, "says": list(row.says), "requests": recorded(row, agents)}
        (HERE / f"{name}.json").write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
