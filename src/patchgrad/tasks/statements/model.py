"""Statements by a language model: any endpoint that speaks OpenAI's chat completions, every answer checked for leaks like all others.

What the model is told and must not tell follows SWE-smith's recipe for issues (https://github.com/SWE-bench/SWE-smith, `issue_gen`), in our
own words. Answers are kept by the hash of what was asked, so that a set is written once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgrad.endpoints import Chat
from patchgrad.errors import ConfigError, Fault, TaskError
from patchgrad.tasks.archive import write_whole
from patchgrad.tasks.sets import Member
from patchgrad.tasks.statements.leaks import leaks, secrets_of
from patchgrad.values import Message, digest

LEVEL = "written"
ATTEMPTS = 3
_SYSTEM = """You write bug reports as a user of a library would who has met a bug and has not looked at its code.
Tell what was done, what happened and what was expected, with a short example that can be run.
Be exact about behaviour and silent about causes.
Never say which function or line is at fault unless the user calls it, never show or hint at the repair, and never mention tests,
test files, patches or that the bug was made on purpose. Answer with the report alone: a title line, an empty line, and the text."""


@dataclass(frozen=True, slots=True)
class Writer:
    """An endpoint (`https://host/v1`), a model's name, a key if it wants one, and the folder where answers are kept."""

    endpoint: str
    model: str
    key: str = ""
    cache: Path | None = None
    temperature: float = 0.7
    seconds: float = 120.0
    pause: float = 1.0

    async def answer(self, messages: Sequence[Message]) -> str:
        """What the model says; `TaskError` when the endpoint does not answer as it should."""
        told = [{"role": message.role, "content": message.content} for message in messages]
        asked = {"model": self.model, "messages": told, "temperature": self.temperature}
        kept = self.cache / f"{digest(self.endpoint, json.dumps(asked, sort_keys=True))}.json" if self.cache else None
        if kept and kept.exists():
            return str(json.loads(kept.read_bytes())["answer"])
        try:
            chat = Chat(self.endpoint, self.model, self.key, seconds=self.seconds, pause=self.pause)
            text = (await chat.ask(messages, {"temperature": self.temperature})).text
        except (Fault, ConfigError) as error:
            raise TaskError(str(error)) from error
        if kept:
            write_whole(kept, json.dumps({"asked": asked, "answer": text}).encode())
        return text


async def write(member: Member, writer: Writer) -> tuple[Member, list[str]]:
    """The member with a statement at the level `written`, and the reasons for which earlier drafts were refused.

    Where no draft is clean the member comes back as it was.
    """
    secrets = secrets_of(
        member.repair, member.task.checks.fail_to_pass, member.task.checks.patch, member.task.tags.get("family", "").split("+")
    )
    messages = [Message("system", _SYSTEM), Message("user", _question(member))]
    reasons: list[str] = []
    for _ in range(ATTEMPTS):
        text = (await writer.answer(messages)).strip() + "\n"
        found = leaks(text, secrets) or ([] if len(text) > 40 else ["too little"])
        if not found:
            return replace(member, levels={**member.levels, LEVEL: text}), reasons
        reasons.append(found[0])
        refusal = f"This tells {found[0]}, which it must not. Write it again without that."
        messages += [Message("assistant", text), Message("user", refusal)]
    return member, reasons


async def write_all(
    members: Sequence[Member], writer: Writer, live: int, tell: Callable[[Member, list[str]], None] | None = None
) -> list[Member]:
    """`write` for each, so many at once, in the order of the members.

    A question that the endpoint does not answer leaves its member as it was, with that reason. Where more in a row than are asked at once
    have no answer, or all of them, it is the endpoint: then that is a `TaskError`.
    """
    door = asyncio.Semaphore(live)
    unanswered: list[TaskError] = []

    async def one(member: Member) -> Member:
        async with door:
            try:
                written, reasons = await write(member, writer)
                unanswered.clear()
            except TaskError as error:
                unanswered.append(error)
                if len(unanswered) > live:
                    raise
                written, reasons = member, [str(error)]
        if tell:
            tell(written, reasons)
        return written

    written = list(await asyncio.gather(*(one(member) for member in members)))
    if unanswered and len(unanswered) == len(members):
        raise unanswered[0]
    return written


def _question(member: Member) -> str:
    package = member.task.tags.get("package", "the library")
    parts = [
        f"The library is {package}. This change brought the bug in; it is for you alone:\n\n{_bug(member.repair)}",
        f"With the bug this is seen:\n\n{member.levels.get('report', '')}",
        f"These checks fail; do not mention them:\n\n{member.output}",
    ]
    return "\n\n".join(parts)


def _bug(repair: str) -> str:
    """The change that the repair undoes: lines taken away for lines added."""
    turned = {"+": "-", "-": "+"}
    lines = [line for line in repair.splitlines() if not line.startswith(("--- ", "+++ "))]
    return "\n".join(turned.get(line[:1], line[:1]) + line[1:] for line in lines)
