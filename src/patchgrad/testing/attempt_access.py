"""What the access of a conversation to its attempt must hold, as one function that is awaited before the first turn."""

from __future__ import annotations

from collections.abc import Sequence

from patchgrad.contracts import AttemptAccess
from patchgrad.errors import ProgramFault
from patchgrad.values import Message

_ENOUGH = 10_000


async def check_attempt_access(access: AttemptAccess, messages: Sequence[Message]) -> None:
    """Raises `AssertionError` for the first rule that is broken; all that may be asked aside is used up then.

    The sandbox is one, and runs commands. More messages are more ids. What is asked aside is answered, as often as an attempt may have
    turns.
    """
    sandbox = await access.sandbox()
    assert await access.sandbox() is sandbox, "an attempt has one sandbox"
    assert (await sandbox.exec(("echo", "here"))).output == "here\n", "commands run in it"
    assert access.count([*messages, *messages]) > access.count(messages) > 0, "more messages are more ids"
    answer, read = await access.aside(messages)
    assert answer.version >= 0, "something may be asked aside"
    assert len(read) == access.count(messages), "it comes with the ids that the policy has read"
    try:
        for _ in range(_ENOUGH):
            await access.aside(messages)
    except ProgramFault:
        return
    raise AssertionError("there is an end to what may be asked aside")
