"""The fates of candidates in a folder, and the tasks that some became: from these an interrupted call goes on."""

from __future__ import annotations

from pathlib import Path

from patchgrad.tasks.sets import TASKS, Member, append, members, row_of, rows

LEDGER = "ledger.jsonl"


class Ledger:
    """What was known when the call began; what is written now is for the next one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fates = {row["candidate"]: row["fate"] for row in rows(folder / LEDGER)}
        known = members(folder) if (folder / TASKS).exists() else []
        self.tasks = {member.task.id.rpartition(".")[2]: member for member in known}

    def settled(self, key: str) -> bool:
        """Is there nothing to try any more?"""
        return key in self._fates or key in self.tasks

    def fate(self, key: str) -> Member | str | None:
        """The task that a candidate became, or why it became none, where that is known."""
        if key in self.tasks:
            return self.tasks[key]
        fate = self._fates.get(key, "task")
        return None if fate == "task" else str(fate)

    def write(self, key: str, fate: Member | str) -> None:
        """Writes down what was not known before."""
        if isinstance(fate, Member) and key not in self.tasks:
            append(self._folder / TASKS, row_of(fate, self._folder))
        if key not in self._fates:
            append(self._folder / LEDGER, {"candidate": key, "fate": fate if isinstance(fate, str) else "task"})
