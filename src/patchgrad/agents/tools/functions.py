"""A user's function as a tool."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from patchgrad.agents.tools.window import View, answer
from patchgrad.contracts import Sandbox
from patchgrad.errors import ComponentError
from patchgrad.functions import calling, is_async, named, requires, watched, wrong
from patchgrad.values import Observation, ToolState


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A command of the agent's by a function of `(arguments, sandbox, state)` that gives what is shown: a text, or an `Observation`.

        async def outline(arguments, sandbox, state):
            "outline FILE: the functions and classes of a file"
            return (await sandbox.exec(["grep", "-nE", "^ *(def|class) ", arguments.strip()])).output

        FunctionTool(outline).name     # "outline"

    Its name is the function's, its usage the first paragraph of the docstring. `sandbox` is an isolated copy of the repository; `state`
    says where the agent stands. A plain function gets a thread of its own. Arguments with a null byte do not reach it. Texts are cut to
    `limit` characters. Raises `ComponentError` for other arguments, for one without a docstring, and when it is called for one that fails:
    bad arguments are an observation.
    """

    function: Callable[..., object]
    limit: int = 16_384
    reads_only: bool = False

    def __post_init__(self) -> None:
        requires(self.function, "tool", (3,), "arguments, sandbox, state")
        if not self.usage:
            raise ComponentError(f"The tool {self.name} has no docstring: its first paragraph is what the agent is told of how to use it.")

    @property
    def name(self) -> str:
        """What the agent calls it by."""
        return named(self.function)

    @property
    def usage(self) -> str:
        """What the agent is told of how to use it."""
        return " ".join((inspect.getdoc(self.function) or "").partition("\n\n")[0].split())

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        """What else than the files decides about its answer is not known, so it is asked every time."""
        return False

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        if "\0" in arguments:
            return answer("The arguments hold a null byte, which no file name and no program can have.", state, View(limit=self.limit))
        with calling("tool", self.function, f"the arguments {arguments!r}"):
            said = await self._asked(arguments, sandbox, state)
        if isinstance(said, str):
            return answer(said, state, View(limit=self.limit))
        if not isinstance(said, Observation):
            raise wrong("tool", self.function, said, "a text or an Observation", f"the arguments {arguments!r}")
        return said

    async def _asked(self, arguments: str, sandbox: Sandbox, state: ToolState) -> object:
        if is_async(self.function):
            said = self.function(arguments, sandbox, state)
        else:
            said = await asyncio.to_thread(self.function, arguments, sandbox, state)
        return await watched(said, "tool", self.function) if inspect.iscoroutine(said) else said
