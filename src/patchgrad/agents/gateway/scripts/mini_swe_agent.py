"""Runs mini-swe-agent, unchanged, by a Python that has it: imports it once and forks for each attempt.

A line of JSON on standard input begins an attempt or stops one; a line on standard output says that one is over. This file imports nothing
of patchgrad, since it may be run by another Python. `Sandbox` is an environment class of mini-swe-agent's that has commands run where the
attempt's sandbox is.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
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


def warm() -> None:
    """Does once, before there are forks, what each would do for itself in a quarter of a second: a first answer, which nobody is asked for.

    What is there by then is no garbage, and a fork that looked for some in it would copy it.
    """
    from minisweagent.models.litellm_model import LitellmModel

    call = {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": '{"command": "true"}'}}
    said = {"mock_response": "-", "mock_tool_calls": [call], "api_key": "-"}
    LitellmModel(model_name=MODEL, model_kwargs=said, cost_tracking="ignore_errors").query([{"role": "user", "content": "-"}])
    gc.collect()
    gc.freeze()


class Forks:
    """The processes of attempts by their numbers. What is over is said on `tell`, a line of JSON each."""

    def __init__(self, tell: int) -> None:
        self.tell, self._children = tell, dict[int, int]()

    def obey(self, told: dict[str, Any]) -> None:
        """Begins the attempt of a job, or ends one."""
        if "stop" not in told:
            child = os.fork()
            if not child:
                self._run(told)
            self._children[told["number"]] = child
        elif told["stop"] in self._children:
            end(self._children[told["stop"]])

    def gather(self) -> None:
        """Takes in whoever is over, and says so of one that was ended from outside before it could."""
        for number, child in list(self._children.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                del self._children[number]
                self._say(number, "killed", "the process was ended")

    def end(self) -> None:
        """Ends all of them."""
        for child in self._children.values():
            end(child)

    def _run(self, job: dict[str, Any]) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        with contextlib.suppress(OSError, AttributeError):  # not Linux: it ends when it next asks
            ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        try:
            status, detail = attempt(job)
        except BaseException as error:
            status, detail = type(error).__name__, " ".join(str(error).split())[:500]
        self._say(job["number"], status, detail)
        os._exit(0)

    def _say(self, number: int, status: str, detail: str) -> None:
        os.write(self.tell, json.dumps({"number": number, "status": status, "detail": detail}).encode() + b"\n")


def end(child: int) -> None:
    """Ends a process with all that it has begun."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def lines_and_ends() -> Iterator[bytes | None]:
    """Each line of the input, and `None` whenever a process is over; until the input ends."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler of its own could come amid another
    ready, left = selectors.DefaultSelector(), b""
    for place in (0, woken):
        ready.register(place, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            read = os.read(key.fd, 1 << 16)
            if key.fd == woken:
                yield None
                continue
            if not read:
                return
            *lines, left = (left + read).split(b"\n")
            yield from lines


def main() -> None:
    """Until the input ends."""
    forks = Forks(os.dup(1))
    os.dup2(2, 1)  # what is printed is nobody's protocol
    import minisweagent

    warm()
    os.write(forks.tell, json.dumps({"version": minisweagent.__version__}).encode() + b"\n")
    for line in lines_and_ends():
        if line is None:
            forks.gather()
        else:
            forks.obey(json.loads(line))
    forks.end()
    os._exit(0)  # nothing that was imported is asked how to end


if __name__ == "__main__":
    main()
