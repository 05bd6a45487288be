"""What becomes of turns that failed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType

from patchgrad.learning.failures import FailurePolicy, Treatment


@dataclass(frozen=True, slots=True)
class Failures:
    """What becomes of turns that failed, by how; in fine-tuning and RL alike (`credit.FailurePolicy`).

    `truncated` is a turn that ran out of tokens before its command ended, `unknown_tool` a command that the shell does not find or a tool
    that the agent does not have. `looping` is a call that was made before in the same state, `overlong` are all turns of an attempt that
    ran into a limit. What infrastructure broke is no field: it is dropped before anything is averaged.
    """

    no_command: Treatment = "keep"
    truncated: Treatment = "keep"
    several_commands: Treatment = "keep"
    unknown_tool: Treatment = "keep"
    bad_arguments: Treatment = "keep"
    looping: Treatment = "keep"
    timeout: Treatment = "keep"
    died: Treatment = "keep"
    out_of_memory: Treatment = "keep"
    overlong: Treatment = "keep"

    @property
    def policy(self) -> FailurePolicy:
        """By the names that turns have: `Failures(no_command="mask").policy` is `{"no command": "mask"}`."""
        chosen = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)}
        return MappingProxyType({kind: treatment for kind, treatment in chosen.items() if treatment != "keep"})


def unread(treatment: Treatment) -> Failures:
    """The same for all turns that the environment could not read; a command that the shell does not find it has read."""
    return Failures(no_command=treatment, truncated=treatment, several_commands=treatment, bad_arguments=treatment)
