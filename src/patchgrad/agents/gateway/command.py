"""Any program as an agent: it runs in the attempt's sandbox, has its own tools there, and asks for answers as it asks any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchgrad.agents.gateway.dialects.parts import MODEL
from patchgrad.agents.gateway.inside import ANSWER, InsideConversation, Job
from patchgrad.contracts import Tool
from patchgrad.errors import ConfigError
from patchgrad.values import Call


@dataclass(frozen=True)
class CommandAgent:
    """`agent.scaffold = {name = "command", argv = [...]}`: each attempt starts this program in its sandbox, in the repository.

    In `argv`, and in the values of `environment`, `{instruction}` is the task, `{address}` is where it asks, without `/v1`, and `{model}`
    is what it asks for; a key may be any word. It may ask at `/v1/chat/completions`, `/v1/responses` or `/v1/messages`. Nothing
    else of the network is there. The sandbox needs a Python named `python3`, and the program: in the task's image, or in one of
    `sandbox.folders`.

    Where a program `calls_tools`, a question of it that names no tool is answered aside, and not trained on. Raises `ConfigError` for an
    `argv` without a program or without the instruction.

        CommandAgent(("aider", "--message", "{instruction}"), {"OPENAI_API_BASE": "{address}/v1"}, calls_tools=False)
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    calls_tools: bool = True

    goes_on = False

    def __post_init__(self) -> None:
        words = [*self.argv, *self.environment.values()] if not isinstance(self.argv, str) else []
        if not words or not all(isinstance(word, str) for word in words):
            raise ConfigError('agent.scaffold: argv is a list of words, such as ["aider", "--message", "{instruction}"].')
        if not any("{instruction}" in word for word in words):
            raise ConfigError("agent.scaffold: the program is not told of its task: put {instruction} into argv or environment.")

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What its calls run: the program, where it runs."""
        return self.begin("").tools

    def parse(self, text: str) -> Call:
        """All that a policy says is for the program."""
        return Call(ANSWER, text)

    def begin(self, instruction: str) -> InsideConversation:
        """The program, which works on the instruction from when it is first asked."""
        return InsideConversation(Job(self.argv, self.environment, {"instruction": instruction, "model": MODEL}, self.calls_tools))
