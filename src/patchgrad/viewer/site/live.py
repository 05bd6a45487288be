"""Attempts that no table has yet, as the page shows them: those that are under way, and those that have ended since the last one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from patchgrad.errors import Refused
from patchgrad.store import Run
from patchgrad.store.journal import Entry, record_at
from patchgrad.store.journal_index import Place
from patchgrad.values import Ending, Repository, Task, Turn, chain, root_of, stream_digest
from patchgrad.viewer.site.recent import Going, Recent
from patchgrad.viewer.site.shown import LONG, place_of, tests_of, turns_of

KEPT = 512
"""Turns that stay read: those of the attempts that are open."""

RUNNING = "running"
FORK = re.compile(r"\+(\d+)\.\d+$")
REPORTED = ("evaluate/base/", "evaluate/+ ")
"""How the attempts of policies of the report begin; others are measured after an iteration, or to choose one of them."""
NOWHERE = Repository("git", "", "")
"""Code that is not here, of a task that nobody knows."""


class Live:
    """Reads an attempt's turns when they are asked for, each of them once as long as it is looked at."""

    def __init__(self, recent: Recent) -> None:
        self._recent, self._run = recent, recent.run
        self._known: dict[str, str] = {}  # the task by the name of a group
        self._tasks: tuple[int, dict[str, Task], dict[str, str]] = (0, {}, {})  # of a file of so many bytes, with their digests
        self._rows: dict[str, tuple[int, bool, dict[str, Any]]] = {}
        self._record = lru_cache(KEPT)(_read)

    def rows(self, unended: str = RUNNING) -> dict[str, dict[str, Any]]:
        """What the list tells of each attempt, by its name; what no one knows before the table is written is null.

        One that has not ended is what `unended` says, as `doing` tells.
        """
        with self._recent.lock:
            found = {name: (len(one.turns), one.ending is not None) for name, one in self._recent.going.items()}
            self._rows = {name: one for name, one in self._rows.items() if found.get(name) == one[:2]}
            for name, state in found.items():
                if name not in self._rows:
                    self._rows[name] = (*state, self._row(name, self._recent.going[name]))
            return {name: row if ended else {**row, "stop": unended} for name, (_, ended, row) in self._rows.items()}

    def _row(self, name: str, one: Going) -> dict[str, Any]:
        ending, left = one.ending, FORK.search(name)
        phase, number = place_of(name)
        return {
            "task": self._task(name, one),
            "phase": phase,
            "iteration": number,
            "turns": len(one.turns) + (int(left[1]) if left else 0),
            "stop": ending.stop if ending else RUNNING,
            "fault": ending.verdict.fault if ending else None,
            "solved": _solved(ending) if ending else None,
            "seconds": ending.seconds if ending else None,
            "kept": tabled(self._run, name),
        }

    def _task(self, name: str, one: Going) -> str:
        """The task whose attempt of this name begins where the first turn does; nothing where it begins after turns of another."""
        group = name.rpartition("/")[0]
        if group not in self._known:
            parent = self._record(one.turns[0]).turn.parent if one.turns else one.ending.parent if one.ending else ""
            task = next((task for task, digest in self._digests().items() if root_of(digest, name) == parent), "")
            if not task:
                return ""
            self._known[group] = task
        return self._known[group]

    def _digests(self) -> dict[str, str]:
        return self._known_tasks()[1]

    def _known_tasks(self) -> tuple[dict[str, Task], dict[str, str]]:
        """The tasks and their digests, read again when there are more."""
        path = self._run.folder / "tasks.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size != self._tasks[0]:
            before = self._tasks[2]
            tasks = self._run.tasks.all(Refused())
            self._tasks = size, tasks, {name: before.get(name) or task.digest() for name, task in tasks.items()}
        return self._tasks[1:]

    def shown(self, name: str, after: str = "", unended: str = RUNNING) -> dict[str, Any] | None:
        """The attempt as far as the journal has it, with the turns that follow the one of this address: all of them where it has none.

        `None` where a table has it, or nobody.
        """
        with self._recent.lock:
            self._recent.look()
            one = self._recent.going.get(name)
            return None if one is None else self._shown(name, one, after) | ({} if one.ending else {"stop": unended})

    def observation(self, name: str, number: int) -> str | None:
        """What a turn was answered, whole; `None` where it is not here."""
        with self._recent.lock:
            self._recent.look()
            one = self._recent.going.get(name)
            turns = () if one is None else (*(found := self._turns(name, one))[0], *found[1])
            return turns[number - 1].observation.content if 1 <= number <= len(turns) else None

    def _shown(self, name: str, one: Going, after: str) -> dict[str, Any]:
        prefix, own, origin = self._turns(name, one)
        ending, turns = one.ending, (*prefix, *own)
        tasks, task = self._known_tasks()[0], self._task(name, one) or self._origin(origin, turns)
        told: Task | None = tasks.get(task)
        since = next((place + 1 for place in reversed(range(len(turns))) if after and turns[place].address == after), 0)
        begins = set(ending.begun) if ending else {n for n, turn in enumerate(turns) if _begins(turn)}
        phase, number = place_of(name)
        return {
            "live": "ended" if ending else "running",
            "kept": tabled(self._run, name),
            "id": name,
            "task": task,
            "phase": phase,
            "iteration": number,
            "solved": _solved(ending) if ending else None,
            "reward": None,
            "parts": {},
            "stop": ending.stop if ending else RUNNING,
            "fault": ending.verdict.fault if ending else None,
            "tamper": list(ending.verdict.tamper) if ending else [],
            "seconds": ending.seconds if ending else None,
            "origin": origin,
            "asides": ending.asides if ending else 0,
            "instruction": told.instruction if told else "",
            "submission": ending.submission if ending else "",
            "tests": tests_of(ending.verdict) if ending else [],
            "from": since,
            "turns": [
                one | {"begins": place in begins, "replayed": place < len(prefix), "trained": [], "address": turns[place].address}
                for place, one in turns_of(self._run, told.repository if told else NOWHERE, turns, LONG, since)
            ],
        }

    def _turns(self, name: str, one: Going) -> tuple[tuple[Turn, ...], tuple[Turn, ...], str]:
        """The turns that it replays, its own, and the attempt whose turns it replays."""
        own = [self._record(place).turn for place in one.turns]
        links: list[Turn | Ending] = [*own, *([one.ending] if one.ending else [])]
        root, digest = links[0].parent, self._digests().get(self._task(name, one))
        prefix, origin = list[Turn](), ""
        for entry in () if digest and root_of(digest, name) == root else self._before(root):
            prefix.insert(0, entry.turn)
            origin = entry.trajectory
        return tuple(prefix), chain(links, root)[0], origin

    def _before(self, address: str) -> Iterator[Entry]:
        """The turns up to this address, the last one first; nothing where it is the root of an attempt. All of the journal is looked at."""
        records = self._run.journal.records
        while address in records:
            yield (entry := records.entry(address))
            address = entry.turn.parent

    def _origin(self, origin: str, turns: tuple[Turn, ...]) -> str:
        """The task of the attempt whose turns are replayed."""
        return next((task for task, digest in self._digests().items() if root_of(digest, origin) == turns[0].parent), "") if turns else ""


def tabled(run: Run, name: str) -> bool:
    """Does a table have the attempt once its phase is done? Of policies measured within a phase the figures alone are kept."""
    return run.evaluates or not name.startswith("evaluate/") or name.startswith(REPORTED)


def _read(place: Place) -> Any:
    return record_at(*place)


def _solved(ending: Ending) -> bool:
    return ending.stop == "submitted" and ending.verdict.resolved


def _begins(turn: Turn) -> bool:
    return turn.action.origin is not None and turn.action.origin.prefix == stream_digest(turn.context)
