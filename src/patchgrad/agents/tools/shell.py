"""The shell."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from patchgrad.agents.tools.window import View, answer
from patchgrad.contracts import Sandbox
from patchgrad.values import Failure, Observation, ToolState

SPECIAL = ("open", "goto", "scroll_down", "scroll_up", "create", "search_file", "edit", "replace", "submit")

_PYTEST = r"(?:python3? -m )?pytest(?: -[xqvs]+| --tb=\w+| -k \w+| --maxfail=\d+| [\w./]+(?:::\w+)*)*"
_GIT = r"git (?:restore|checkout|diff|status|log|show)(?: [\w./]+)*"
_ECHO = r"echo(?: \w+)*"
_NAMES_GIT = re.compile(r"\bgit\b")
_REFRESH = ("git", "update-index", "-q", "--refresh")  # else git answers by times that it has noted of files
KILLED = re.compile(r"^\S*bash: line \d+: +\d+ Killed\b", re.MULTILINE)  # what bash says of a process that somebody else ended
_BY_FILES = re.compile(rf"(?:{_PYTEST}|{_GIT}|{_ECHO})(?: *(?:&&|\|\||;) *(?:{_PYTEST}|{_GIT}|{_ECHO}))*")


def by_files(command: str) -> bool:
    """Do the repository's files settle what a command says and leaves? Of pytest and git, asked plainly, that is so.

    Others may set variables, leave processes, or write and read files elsewhere. `by_files("pytest -x || git restore .")` is true,
    `by_files("cd src && pytest")` is not.
    """
    return _BY_FILES.fullmatch(command.strip()) is not None and ".." not in command and " /" not in command


async def refresh(command: str, sandbox: Sandbox) -> None:
    """Before a command that names git: what git answers is then decided by the files."""
    if _NAMES_GIT.search(command):
        await sandbox.exec(_REFRESH)


@dataclass(frozen=True)
class Shell:
    """Any command that needs no keyboard, in the sandbox's persistent shell; `seconds` is its deadline, `None` the task's."""

    view: View
    seconds: float | None = None

    name = "shell"
    usage = "any non-interactive shell command"
    reads_only = False

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        return by_files(arguments) and (observation is None or KILLED.search(observation.content) is None)

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        await refresh(arguments, sandbox)
        result = await sandbox.run(arguments, self.seconds)
        content, failure = result.output.rstrip("\n"), None
        notes: list[str] = []
        if result.truncated:
            notes.append("[... the rest of the output was cut ...]")
        failures: dict[str, tuple[Failure, str]] = {
            "timeout": ("timeout", "The command ran out of time and was stopped."),
            "died": ("died", "The shell died; a new one was started."),
            "out of memory": ("out of memory", "The shell was ended with all it ran; a new one was started."),
        }
        if result.state in failures:
            failure, note = failures[result.state]
            notes.append(note)
        lost = re.search(r"(?:^|: )([^\s:]+): command not found", content)
        if failure is None and result.exit_code == 127 and lost:
            failure = "unknown tool"
            if lost[1] in SPECIAL:
                notes.append(f"{lost[1]} is a special tool: it must be the first and only command of its block.")
        if not content and not notes and not self.view.brief:
            notes.append("Your command ran successfully and did not produce any output." if result.exit_code == 0 else "")
        seen = answer("\n".join(part for part in (content, *notes) if part), state, self.view, failure)
        state = replace(state, directory=result.directory)
        clipped = seen.clipped or result.truncated
        return replace(seen, tool_state=state, exit_code=result.exit_code, clipped=clipped, seconds=result.seconds)
