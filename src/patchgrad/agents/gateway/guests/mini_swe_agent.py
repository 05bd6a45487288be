"""Runs mini-swe-agent, unchanged, by a Python that has it: imports it once and forks for each attempt.

A line of JSON on standard input begins an attempt or stops one; a line on standard output says that one is over. This file imports nothing
of patchgrad, since it may be run by another Python. `Sandbox` is an environment class of mini-swe-agent's that has commands run where the
attempt's sandbox is.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from typing import Any

MODEL = "openai/patchgrad"
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
PLACE = {"system": "Linux", "release": "", "version": "", "machine": ""}
"""What a prompt says of the machine: the same wherever the attempt is made."""


class Sandbox:
    """Runs each command of mini-swe-agent's through the gateway, in a fresh shell in the attempt's sandbox."""

    def __init__(self, address: str, token: str, finished: type[Exception]) -> None:
        self._address, self._token, self._finished = address, token, finished

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """What a command gave; raises mini-swe-agent's `Submitted` where it says that the work is done."""
        command = action.get("command", "")
        if not isinstance(command, str):
            return {"output": "", "returncode": -1, "exception_info": "The command was not run: it is no text."}
        request = urllib.request.Request(
            f"{self._address}/sandbox",
            json.dumps({"command": command}).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            output: dict[str, Any] = json.load(answer)
        lines = output["output"].lstrip().splitlines(keepends=True)
        if lines and lines[0].strip() == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" and output["returncode"] == 0:
            submission = "".join(lines[1:])
            told = {"exit_status": "Submitted", "submission": submission}
            raise self._finished({"role": "exit", "content": submission, "extra": told})
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """What prompts may name."""
        return {**PLACE, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """Nothing is to be kept of it."""
        return {}


def attempt(job: dict[str, Any]) -> tuple[str, str]:
    """One attempt: how mini-swe-agent ended it, and what it says of that."""
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.config import get_config_from_spec
    from minisweagent.exceptions import Submitted
    from minisweagent.models.litellm_model import LitellmModel
    from minisweagent.utils.serialize import recursive_merge

    settings = recursive_merge(get_config_from_spec("mini.yaml"), job["settings"])
    model = settings.get("model", {})
    server = {"api_base": f"{job['address']}/v1", "api_key": job["token"], "timeout": 10**6, "max_retries": 2}
    own = {"model_name": MODEL, "model_kwargs": {**model.get("model_kwargs", {}), **server}, "cost_tracking": "ignore_errors"}
    agent = DefaultAgent(
        LitellmModel(**{**model, **own}),
        Sandbox(job["address"], job["token"], Submitted),
        **{**settings.get("agent", {}), "cost_limit": 0, "output_path": None},
    )
    told = agent.run(job["instruction"])
    return str(told.get("exit_status", "")), ""


def forked(job: dict[str, Any], tell: int) -> int:
    """A process for an attempt; its number."""
    child = os.fork()
    if child:
        return child
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    with contextlib.suppress(OSError, AttributeError):  # not Linux: it ends when it next asks
        ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    try:
        status, detail = attempt(job)
    except BaseException as error:
        status, detail = type(error).__name__, " ".join(str(error).split())[:500]
    os.write(tell, json.dumps({"number": job["number"], "status": status, "detail": detail}).encode() + b"\n")
    os._exit(0)


def end(child: int) -> None:
    """Ends a process with all that it has begun."""
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def main() -> None:
    """Until the input ends."""
    tell = os.dup(1)
    os.dup2(2, 1)  # what is printed is nobody's protocol
    import minisweagent
    import minisweagent.agents.default
    import minisweagent.models.litellm_model

    os.write(tell, json.dumps({"version": minisweagent.__version__}).encode() + b"\n")
    children: dict[int, int] = {}

    def gather(*_: object) -> None:
        """Takes in whoever is over, and says so of one that was ended from outside before it could."""
        for number, child in list(children.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                del children[number]
                os.write(tell, json.dumps({"number": number, "status": "killed", "detail": "the process was ended"}).encode() + b"\n")

    signal.signal(signal.SIGCHLD, gather)
    for line in sys.stdin.buffer:
        told = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if "stop" in told:
            if told["stop"] in children:
                end(children[told["stop"]])
        else:
            children[told["number"]] = forked(told, tell)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for child in children.values():
        end(child)
    os._exit(0)  # nothing that was imported is asked how to end


if __name__ == "__main__":
    main()
