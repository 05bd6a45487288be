"""mini-swe-agent as an agent: its own loop and prompts, from its own package, over a sandbox and a policy of ours."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.conversation import Begun, ProgramConversation
from patchgrad.agents.gateway.programs import programs
from patchgrad.contracts import Tool
from patchgrad.errors import ConfigError, MissingDependency
from patchgrad.values import Call, Malformed, Stop

SCRIPT = Path(__file__).parent / "scripts" / "mini_swe_agent.py"
ENVIRONMENT = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "true",
    "MSWEA_GLOBAL_CONFIG_DIR": "{home}",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
STOPS: Mapping[str, Stop] = {
    "Submitted": "submitted",
    "RepeatedFormatError": "format errors",
    "LimitsExceeded": "turn limit",
    "TimeExceeded": "time limit",
}
"""How mini-swe-agent says that it is over."""

BRIEF: Mapping[str, Any] = {
    "agent": {"system_template": "", "instance_template": "{{task}}"},
    "model": {
        "observation_template": "{% if output.returncode != 0 %}exit {{output.returncode}}\n{% endif %}{{output.output}}",
        "format_error_template": "{{error}}",
    },
}
"""Settings of mini-swe-agent's own for a small network: the issue alone, what a command printed, and its exit code where it is not 0."""


@dataclass(frozen=True)
class MiniSweAgent:
    """`agent.scaffold = "mini-swe-agent"`: each attempt is a process of it, which is told of each turn and says what comes next.

    Of `tools` it has one, `bash` (`agents.tools.Bash`). `prompts` are mini-swe-agent's own, or `brief` ones for a small network. `settings`
    are keys of its configuration that take the place of others, such as `{"agent": {"step_limit": 20}}`. `python` is a Python that has
    the package where this one has not. Raises `MissingDependency` where none has it.
    """

    tools: Mapping[str, Tool]
    prompts: Literal["full", "brief"] = "full"
    settings: Mapping[str, Any] = field(default_factory=dict)
    python: str = ""

    goes_on = True

    def __post_init__(self) -> None:
        if not self.python and importlib.util.find_spec("minisweagent") is None:
            raise MissingDependency("The agent mini-swe-agent is not installed: pip install 'patchgrad[mini-swe-agent]'.")
        if self.python and not Path(self.python).is_file():
            raise ConfigError(f"agent.scaffold.python: there is no program {self.python}.")

    def parse(self, text: str) -> Call | Malformed:
        """The command of a text's first call; its failure says what mini-swe-agent tells a policy in its own words."""
        found = read(text)
        if found.call is None:
            return Malformed(found.fault or "no command", found.fault or "no command")
        command = found.call.arguments.get("command")
        if found.call.name != "bash":
            return Malformed("unknown tool", f"There is no tool {found.call.name}.")
        return Call("bash", command) if isinstance(command, str) else Malformed("bad arguments", "bad arguments")

    def begin(self, instruction: str) -> ProgramConversation:
        """A process of it that works on the instruction; it is started when it is first asked."""
        settings = {name: {**BRIEF.get(name, {}), **self.settings.get(name, {})} for name in {*BRIEF, *self.settings}}
        job = {"instruction": instruction, "settings": settings if self.prompts == "brief" else self.settings}

        def start(address: str, token: str, ended: Callable[[str, str], None]) -> Callable[[], None]:
            process = programs(self.python or sys.executable, SCRIPT, ENVIRONMENT)
            number = process.start({**job, "address": address, "token": token}, ended)
            return lambda: process.stop(number)

        return ProgramConversation(Begun(self.tools, start, STOPS, tells_tools=self.prompts == "full"))
