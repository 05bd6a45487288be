"""Three samples of our tasks in inspect_ai: `python with_inspect.py FOLDER` in an environment that has it; its last line is JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tiktoken
from inspect_ai import eval
from inspect_ai.agent import react
from inspect_ai.model import ChatMessage, GenerateConfig, ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, chain, solver
from inspect_ai.tool import ToolChoice, ToolInfo, bash
from inspect_ai.util import sandbox
from tests.guests.shop import REPAIR, shop

from patchgrad.guests.inspect import AGENT, repairs
from patchgrad.recipes.recipe import SandboxChoice

SEEN: dict[str, Any] = {}
CALLS = {"repaired": REPAIR, "untouched": "ls", "forged": "echo 'def test_total(): pass' > test_shop.py; echo 'import os' > conftest.py"}


def answer(messages: list[ChatMessage], tools: list[ToolInfo], choice: ToolChoice, config: GenerateConfig) -> ModelOutput:
    """The command of the sample that a message names, then submit."""
    name = next(word for word in CALLS if any(f"({word})" in message.text for message in messages))
    if any(message.role == "tool" for message in messages):
        return ModelOutput.for_tool_call("mockllm", "submit", {"answer": "done"})
    return ModelOutput.for_tool_call("mockllm", "bash", {"command" if "command" in tools[0].parameters.properties else "cmd": CALLS[name]})


async def raised(work: Awaitable[Any]) -> str:
    try:
        await work
    except TimeoutError:
        return "TimeoutError"
    except Exception as error:
        return type(error).__name__
    return ""


@solver
def looking() -> Solver:
    """Tries what a sandbox of inspect_ai's can do."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        box = sandbox()
        if not SEEN and state.sample_id == "untouched":
            await box.write_file("/tmp/notes/a.txt", "it is\n")
            SEEN["file"] = await box.read_file("/tmp/notes/a.txt")
            SEEN["bytes"] = await box.read_file("/tmp/notes/a.txt", text=False) == b"it is\n"
            SEEN["input"] = (await box.exec(["cat"], input="said")).stdout
            SEEN["cwd"] = (await box.exec(["pwd"], cwd="/tmp")).stdout.strip()
            SEEN["env"] = (await box.exec(["bash", "-c", "echo $X"], env={"X": "1"})).stdout.strip()
            SEEN["code"] = (await box.exec(["bash", "-c", "exit 3"])).returncode
            SEEN["slow"] = await raised(box.exec(["sleep", "30"], timeout=1, timeout_retry=False))
            SEEN["user"] = await raised(box.exec(["ls"], user="root"))
            SEEN["missing"] = await raised(box.read_file("nothing.txt"))
        return state

    return solve


def count_by_bytes() -> None:
    """The agent counts tokens by an encoding that is fetched from the network: here a byte is a token."""
    ranks = {bytes([number]): number for number in range(256)}
    tiktoken.registry.ENCODINGS["o200k_base"] = tiktoken.Encoding("o200k_base", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens={})


def main(folder: Path) -> None:
    count_by_bytes()
    tasks = [replace(shop(folder, id), instruction=f"The total is one too low ({id}).") for id in CALLS]
    made = repairs(
        lambda split, count, seed: tasks,
        solver=chain(looking(), react(prompt=AGENT, tools=[bash()])),
        sandboxes=SandboxChoice(concurrency=2),
    )
    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = eval(made, model=model, log_dir=str(folder / "logs"), display="none")
    if log.error:
        raise RuntimeError(log.error.message)
    samples = [
        {"id": one.id, **{key: getattr(one.scores["hidden_tests"], key) for key in ("value", "answer", "explanation")}}
        if one.scores
        else {"id": one.id, "value": str(one.error)}
        for one in log.samples
    ]
    metrics = {name: one.value for name, one in log.results.scores[0].metrics.items()}
    sys.stdout.write(json.dumps({"status": log.status, "samples": samples, "metrics": metrics, "sandbox": SEEN}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
