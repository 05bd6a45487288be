"""A command in a shell of its own."""

from __future__ import annotations

from dataclasses import dataclass

from patchgrad.agents.tools.shell import KILLED, by_files, refresh
from patchgrad.agents.tools.window import View, answer
from patchgrad.contracts import Sandbox
from patchgrad.values import Failure, Observation, ToolState

QUIET = {"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}
"""What keeps programs from waiting for a keyboard, and from drawing."""


@dataclass(frozen=True)
class Bash:
    """Each command in a fresh shell in the repository: folder and variables do not last. What it prints is shown, and nothing is added."""

    view: View

    name = "bash"
    usage = "any non-interactive command; folder and variables do not last"
    reads_only = False

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        return by_files(arguments) and (observation is None or KILLED.search(observation.content) is None)

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        if "\0" in arguments:
            return answer("The command holds a null byte, which no program can have.", state, self.view, "bad arguments")
        await refresh(arguments, sandbox)
        result = await sandbox.exec(("bash", "-c", arguments), env=QUIET)
        failures: dict[str, Failure] = {"timeout": "timeout", "died": "died", "out of memory": "out of memory"}
        seen = answer(result.output, state, self.view, failures.get(result.state))
        return Observation(
            seen.content, state, result.exit_code, seen.clipped or result.truncated, seconds=result.seconds, failure=seen.failure
        )
