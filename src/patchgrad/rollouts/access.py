"""What a conversation has of its attempt: its sandbox, and its policy aside from the turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchgrad.contracts import Policy, Sandbox
from patchgrad.errors import ContextFault, NotAccepted, ProgramFault
from patchgrad.rollouts.environment import Environment
from patchgrad.values import Action, Attempt, Ids, Message, digest, ids
from patchgrad.waiting import waiting_for


@dataclass(slots=True)
class Access:
    """An `AttemptAccess`. The loop has `told` it what was sampled last, and the ids before it; `waited` are the
    seconds that the policy took for asides.
    """

    attempt: Attempt
    policy: Policy
    environment: Environment
    told: tuple[Action, Ids] | None = None
    asides: int = 0
    waited: float = 0.0

    @property
    def command_seconds(self) -> float:
        """Seconds that one command may take."""
        return self.attempt.task.limits.command_seconds

    async def sandbox(self) -> Sandbox:
        """The attempt's sandbox, for good: what is done in it outside of calls is in no cache."""
        return await self.environment.inside()

    def count(self, messages: Sequence[Message]) -> int:
        return len(self._encoded(messages))

    async def aside(self, messages: Sequence[Message]) -> tuple[Action, Ids]:
        """An answer that is no turn; sampled as turns are, under a seed of its own."""
        attempt, number = self.attempt, self.asides
        if number >= attempt.budget.turns:
            raise ProgramFault(f"the program asked {number} times aside, and may have as many turns")
        self.asides += 1
        tokens = ids(self._encoded(messages))
        room = min(attempt.budget.context, self.policy.context) - len(tokens)
        if room < 1:
            raise ContextFault("what is asked aside fills the context")
        seed = int(digest(str(attempt.seed), attempt.id, "aside", str(number))[:15], 16)
        sampling = replace(attempt.sampling, seed=seed, max_tokens=min(attempt.budget.action_tokens, room))
        session, began = f"{attempt.id}#aside{number}", time.monotonic()
        try:
            with waiting_for("sampling"):
                return await self.policy.act(session, tokens, sampling), tokens
        finally:
            self.waited += time.monotonic() - began
            self.policy.release(session)

    def _encoded(self, messages: Sequence[Message]) -> Ids:
        try:
            return self.policy.encode(messages, None)
        except NotAccepted as refusal:
            raise ProgramFault(f"the program asks what the policy cannot read: {refusal}") from refusal

    @property
    def sampled(self) -> tuple[Action, Ids]:
        if self.told is None:
            raise ProgramFault("nothing was sampled yet")
        return self.told


class Alone:
    """The access of a conversation that has no attempt: it can be asked what it begins with, if it does so outside of a sandbox."""

    command_seconds = 0.0

    async def sandbox(self) -> Sandbox:
        raise ProgramFault("the program asks in a sandbox alone, and there is none")

    def count(self, messages: Sequence[Message]) -> int:
        raise ProgramFault("no policy counts the tokens")

    async def aside(self, messages: Sequence[Message]) -> tuple[Action, Ids]:
        raise ProgramFault("no policy answers")

    @property
    def sampled(self) -> tuple[Action, Ids]:
        raise ProgramFault("nothing was sampled")
