"""The paper's agent (section 3): one thought and exactly one command a turn; the whole history conditions every decision.

It only ever extends the stream: nothing shown is taken back, so one trajectory is one training sequence.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from patchgrad.agents import prompts_full
from patchgrad.agents.parsing import blocks
from patchgrad.contracts import Extend, Finish, Tool
from patchgrad.values import Call, Malformed, Message, ToolState, Turn, repeated

START = ToolState()

NO_COMMAND = (
    "Cannot extract a command from your response. It must contain exactly one block that starts with ```command "
    "and ends with ``` on a line of its own."
)
AGAIN = {"full": "(You ran this command before in the same state. Try something else.)", "brief": "This was tried before."}
SEVERAL_COMMANDS = "Several commands were extracted from your response. Give exactly one ```command block a turn, and wait for its result."


@dataclass(frozen=True)
class ReactAgent:
    """Reason, act once, observe. `ReactAgent(toolset(), demonstration=True)` collects first rollouts from a base model.

    `prompts` is `full`, the paper's system prompt and first message in our words (section 3.5), or `brief`, for a model of a few
    million parameters trained from scratch: no system prompt, the issue alone, a short prompt line. Protocol and tools are the
    same. The one-shot `demonstration` belongs to rejection sampling from a model that never saw the protocol, and nowhere else.
    With `repeats` it says so where a call was made before in the same state.
    """

    tools: Mapping[str, Tool]
    prompts: Literal["full", "brief"] = "full"
    demonstration: bool = False
    repeats: bool = False

    def prompt(self, instruction: str, turns: Sequence[Turn]) -> Extend | Finish:
        """The issue first, then each turn's observation above the prompt line; after a submit, the end."""
        if not turns:
            return Extend(self._first(instruction))
        last = turns[-1]
        if isinstance(last.call, Call) and last.call.tool == "submit" and last.observation.failure is None:
            return Finish("submitted")
        again = (AGAIN[self.prompts],) if self.repeats and isinstance(last.call, Call) and repeated(turns)[-1] else ()
        said = (last.observation.content, *again, self._line(last.observation.tool_state))
        return Extend((Message("user", "\n".join(part for part in said if part)),))

    def parse(self, text: str) -> Call | Malformed:
        """The call of the one command block; its first word names a tool, anything else is for the shell.

        `parse("```command\\nopen a.py 3\\n```") == Call("open", "a.py 3")`, and `ls -l` is `Call("shell", "ls -l")`.
        """
        found = blocks(text)
        if len(found) > 1:
            return self._malformed("several commands")
        block = (found[0] or "").strip("\n") if found else ""
        if not block.strip():
            return self._malformed("no command")
        word, *rest = block.lstrip().split(None, 1)
        if word in self.tools and word != "shell":
            return Call(word, rest[0] if rest else "")
        return Call("shell", block)

    def _malformed(self, kind: Literal["no command", "several commands"]) -> Malformed:
        if self.prompts == "brief":
            return Malformed(kind, kind)
        return Malformed(kind, NO_COMMAND if kind == "no command" else SEVERAL_COMMANDS)

    def _first(self, instruction: str) -> tuple[Message, ...]:
        if self.prompts == "brief":
            return (Message("user", f"{instruction.strip()}\n{self._line(START)}"),)
        system = prompts_full.system([(tool.name, tool.usage) for tool in self.tools.values()], self.demonstration)
        return (Message("system", system), Message("user", f"{prompts_full.first(instruction)}\n{self._line(START)}"))

    def _line(self, state: ToolState) -> str:
        """Section 3.4's prompt line; `brief` says the same of a state below `/testbed` as `(shop cart.py) $`."""
        if self.prompts == "full":
            return f"(Current directory: {state.directory}, current file: {state.file or 'none'}) bash-$"
        directory = posixpath.relpath(state.directory, START.directory)
        file = posixpath.relpath(state.file, state.directory) if state.file else ""
        return f"({' '.join(part for part in (directory, file) if part)}) $"
