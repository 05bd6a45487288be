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
from patchgrad.errors import Fault, PolicyFault
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
    """A model behind an address, and the folder where its answers are kept."""

    chat: Chat
    cache: Path | None = None
    temperature: float = 0.7

    async def answer(self, messages: Sequence[Message]) -> str:
        """What the model says; raises as `Chat.ask`, and `PolicyFault` where an answer holds no text."""
        told = [{"role": message.role, "content": message.content} for message in messages]
        asked = {"model": self.chat.model, "messages": told, "temperature": self.temperature}
        place = self.chat.url.removesuffix("/chat/completions")
        kept = self.cache / f"{digest(place, json.dumps(asked, sort_keys=True))}.json" if self.cache else None
        if kept and kept.exists():
            return str(json.loads(kept.read_bytes())["answer"])
        found = await self.chat.ask(messages, {"temperature": self.temperature})
        if not found.text.strip():
            raise PolicyFault(f"{self.chat.url} answered with {found.instead} and without text.")
        if kept:
            write_whole(kept, json.dumps({"asked": asked, "answer": found.text}).encode())
        return found.text


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
    members: Sequence[Member], writer: Writer, live: int, tell: Callable[[Member, list[str], str], None] | None = None
) -> list[Member]:
    """`write` for each, so many at once, in the order of the members.

    A member for which no answer came is as it was, and costs no other one its statement. What was found is told as it comes: the member,
    the reasons for which drafts were refused, and why there was no answer.
    """
    door = asyncio.Semaphore(live)

    async def one(member: Member) -> Member:
        async with door:
            written, reasons, broke = member, list[str](), ""
            try:
                written, reasons = await write(member, writer)
            except Fault as fault:
                broke = str(fault)
        if tell:
            tell(written, reasons, broke)
        return written

    return list(await asyncio.gather(*(one(member) for member in members)))


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
