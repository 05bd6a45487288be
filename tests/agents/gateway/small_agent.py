"""A program of others, small enough to be read: asks in a dialect, runs what it is told to by a shell, and ends when nothing is called.

python3 small_agent.py DIALECT ADDRESS INSTRUCTION
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import Any

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def asked(address: str, path: str, body: Any, retries: int = 0) -> Any:
    headers = {"Content-Type": "application/json", "X-Stainless-Retry-Count": str(retries)}
    with OPENER.open(urllib.request.Request(address + path, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


def run(arguments: Any) -> str:
    done = subprocess.run(["bash", "-c", arguments["command"]], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def chat(address: str, instruction: str) -> None:
    messages: list[Any] = [{"role": "system", "content": "Work."}, {"role": "user", "content": instruction}]
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    while True:
        said = asked(address, "/v1/chat/completions", {"messages": messages, "tools": tools})["choices"][0]["message"]
        messages.append(said)
        if not said.get("tool_calls"):
            return
        for call in said["tool_calls"]:
            given = run(json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": given})


def responses(address: str, instruction: str) -> None:
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": instruction}]}]
    tools = [{"type": "function", "name": "bash", "parameters": SCHEMA}, {"type": "web_search"}]
    while True:
        output = asked(address, "/v1/responses", {"instructions": "Work.", "input": items, "tools": tools})["output"]
        items += [{"type": "reasoning", "summary": []}, *output]
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return
        for call in calls:
            items.append({"type": "function_call_output", "call_id": call["call_id"], "output": run(json.loads(call["arguments"]))})


def messages(address: str, instruction: str) -> None:
    said: list[Any] = [{"role": "user", "content": instruction}]
    tools = [{"name": "bash", "input_schema": SCHEMA}]
    while True:
        content = asked(address, "/v1/messages", {"system": "Work.", "messages": said, "tools": tools})["content"]
        said.append({"role": "assistant", "content": content})
        uses = [block for block in content if block["type"] == "tool_use"]
        if not uses:
            return
        results = [{"type": "tool_result", "tool_use_id": use["id"], "content": run(use["input"])} for use in uses]
        said.append({"role": "user", "content": results})


if __name__ == "__main__":
    {"chat": chat, "responses": responses, "messages": messages}[sys.argv[1]](*sys.argv[2:])
