"""Rollouts of our tasks in verifiers' own evaluation: `python with_verifiers.py FOLDER` in an environment that has it; last line JSON.

The model is a script behind an address that speaks OpenAI's chat completions; the evaluation, the record of its turns, agent, tools,
sandbox and grading are those of any other model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.guests.shop import REPAIR, shop
from verifiers.v1.cli.eval import main as evaluation

from patchgrad.guests.verifiers import KNOWN
from patchgrad.tasks.sets import Member, save
from patchgrad.testing.endpoint import ScriptedEndpoint, Trouble

MODULE = """
from patchgrad.guests.verifiers import RepairEnv, RepairHarness, RepairTaskset
from patchgrad.recipes.recipe import SandboxChoice


class {name}(RepairTaskset):
    sandbox = SandboxChoice(concurrency=2)

{body}


__all__ = ["{name}", "RepairEnv", "RepairHarness"]
"""
REWARD = """    def reward(self, task, trajectory, verdict):
        return 10 * verdict.resolved - ("sum" in trajectory.submission)
"""
SUBMIT = ("submit", "{}")


def run(command: str) -> tuple[str, str]:
    return "shell", json.dumps({"command": command})


CALLS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "repaired": (run(REPAIR), ("open", '{"path": "shop.py"}'), SUBMIT),
    "untouched": (run("ls"), SUBMIT),
    "forged": (run("echo 'def test_total(): pass' > test_shop.py; echo 'import os' > conftest.py"), SUBMIT),
    "silent": (run(REPAIR),),
    "endless": (run(REPAIR), *(run("ls"),) * 50),
    "slow": (run(REPAIR), run("sleep 600"), SUBMIT),
    "clumsy": (("shell", "{"), ("edit", '{"path": 3}'), ("fly", "{}"), ("open", '{"path": "no.py"}'), run(REPAIR), SUBMIT),
    "refused": (run(REPAIR),),
    "long": (run(REPAIR),),
    "gone": (run(REPAIR), SUBMIT),
}


class Endpoint(ScriptedEndpoint):
    """Calls the tools that a task's script says, one a turn; what the tools answered stands in `asked`."""

    def answer(self, asked: Mapping[str, Any]) -> Trouble:
        messages = asked["messages"]
        name = next(word for word in CALLS if any(f"({word})" in str(message["content"]) for message in messages))
        turn = sum(message["role"] == "assistant" for message in messages)
        if name == "refused" and turn:
            return Trouble(401, json.dumps({"error": {"message": "The key is wrong."}}))
        if name == "long" and turn:
            return Trouble(
                400, json.dumps({"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}})
            )
        said: dict[str, Any] = {"role": "assistant", "content": "It is done."}
        if turn < len(CALLS[name]):
            tool, arguments = CALLS[name][turn]
            said["tool_calls"] = [{"id": f"c{turn}", "type": "function", "function": {"name": tool, "arguments": arguments}}]
        finish = "tool_calls" if "tool_calls" in said else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        told = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
        return Trouble(200, json.dumps({**told, "choices": [{"index": 0, "message": said, "finish_reason": finish}]}))


def evaluated(folder: Path, module: str, url: str, *options: str) -> list[dict[str, Any]]:
    """The traces of an evaluation of this module."""
    run = folder / "out" / str(len(list(folder.glob("out/*"))))
    known = ("--client.base-url", url, "--client.api-key-var", "NONE", "-m", "m", "--no-push", "--no-rich")
    places = ("--env.taskset.set", str(folder / "set"), "--output-dir", str(run.parent), "--run.dir", run.name)
    evaluation.main([module, *places, *known, *options])
    lines = (run / "traces.jsonl").read_text().splitlines()
    return [trace for line in lines for trace in json.loads(line)["traces"]]


def found(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What a test asks of a trace."""
    errors = [error["type"] + ": " + error["message"] for error in trace.get("errors") or []]
    rewards = {name: reward["score"] for name, reward in trace["rewards"].items()}
    told = {name: trace.get(name) for name in ("ok", "stop_condition")}
    patch = (trace.get("info") or {}).get("patch")
    return {**told, "errors": errors, "rewards": rewards, "patch": patch, "turns": len(trace["calls"]), "whole": json.dumps(trace)}


def whole_set(folder: Path) -> None:
    """A task for each script, whose commands end later than a rollout may; that of `gone` has no archive any more."""
    made = [replace(shop(folder, id), instruction=f"The total is one too low ({id}).", tags={"split": "held_out"}) for id in CALLS]
    lost = replace(made[-1].repository, location=str(folder / "lost.tar"), digest=64 * "0")
    made = [replace(task, limits=replace(task.limits, command_seconds=600.0)) for task in made]
    save(folder, [Member(task, {"report": task.instruction}, "") for task in (*made[:-1], replace(made[-1], repository=lost))])


def main(folder: Path) -> None:
    whole_set(folder / "set")
    (folder / "mine.py").write_text(MODULE.format(name="Mine", body="    pass"))
    (folder / "other.py").write_text(MODULE.format(name="Other", body=REWARD))
    sys.path.insert(0, str(folder))
    with Endpoint([]) as endpoint:
        traces = evaluated(folder, "mine", endpoint.url, "--env.agent.max-turns", "12", "--env.agent.timeout.rollout", "90")
        heard = [message["content"] for asked in endpoint.asked for message in asked["messages"] if message["role"] == "tool"]
        tools = [tool["function"]["name"] for tool in endpoint.asked[0]["tools"]]
        (own,) = evaluated(folder, "other", endpoint.url, "-n", "1")
        (astray,) = evaluated(folder, "mine", endpoint.url, "-n", "1", "--env.agent.harness.id", "null")
    said = {
        "traces": {trace["task"]["data"]["id"]: found(trace) for trace in traces},
        "own": found(own),
        "astray": found(astray),
        "heard": heard,
        "tools": tools,
        "open": [name for name, taskset in KNOWN.items() if "desk" in vars(taskset) or taskset.visits],
    }
    sys.stdout.write(f"\n{json.dumps(said)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
