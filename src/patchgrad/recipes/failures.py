"""What becomes of turns that failed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from patchgrad.learning.failures import FailurePolicy, Treatment


@dataclass(frozen=True, slots=True)
class Failures:
    """What becomes of turns that failed, by how; in fine-tuning and RL alike (`learning.failures.FailurePolicy`).

    `truncated` is a turn that ran out of tokens before its command ended, `unknown_tool` a command that the shell does not find or a tool
    that the agent does not have. `looping` is a call that was made before in the same state, `undone` an edit that was taken back in its
    turn, and `overlong` are all turns of an attempt that ran into a limit. `sandbox_lost` is the turn after which nobody could go on in its
    sandbox. What infrastructure broke is no field: it is dropped before anything is averaged. In a stage none is the row's own.
    """

    no_command: Treatment | None = None
    truncated: Treatment | None = None
    several_commands: Treatment | None = None
    unknown_tool: Treatment | None = None
    bad_arguments: Treatment | None = None
    looping: Treatment | None = None
    undone: Treatment | None = None
    timeout: Treatment | None = None
    died: Treatment | None = None
    out_of_memory: Treatment | None = None
    sandbox_lost: Treatment | None = None
    overlong: Treatment | None = None

    @property
    def policy(self) -> FailurePolicy:
        """By the names that turns have: `Failures(no_command="mask").policy` is `{"no command": "mask"}`."""
        return MappingProxyType({name.replace("_", " "): treatment for name, treatment in self._said.items() if treatment != "keep"})

    def onto(self, other: Failures) -> Failures:
        """The other's treatments, but where this one says its own."""
        return replace(other, **self._said)

    @property
    def _said(self) -> dict[str, Treatment]:
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: treatment for name, treatment in chosen.items() if treatment is not None}


KEPT: Treatment = "keep"
KEEP = Failures(**dict.fromkeys((field.name for field in fields(Failures)), KEPT))
"""Every turn that failed stays an example of what not to do."""
