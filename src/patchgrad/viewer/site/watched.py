"""A run that goes on: what its files and its journal tell together."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgrad.errors import PatchgradError, StoreError
from patchgrad.store import Run
from patchgrad.viewer.site import shown
from patchgrad.viewer.site.doing import doing
from patchgrad.viewer.site.live import Live, tabled
from patchgrad.viewer.site.now import Now
from patchgrad.viewer.site.recent import Recent

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Watched:
    """A run, what it is at, and its attempts that no table has yet."""

    run: Run
    now: Now
    live: Live

    @classmethod
    def of(cls, run: Run) -> Watched:
        recent = Recent(run)
        return cls(run, Now(recent), Live(recent))

    def state(self) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
        """How much the run has, which is another text when there is more, what it is at, and its attempts that no table has."""
        folder = self.run.folder
        size = (len(self.run.rollouts.files()), _size(folder / "metrics.jsonl"), _size(folder / "report.json"))
        right_now = doing(self.run)
        now = {**self.now.told(), "doing": right_now.said}
        try:
            return ",".join(map(str, size)), now, self.live.rows(right_now.attempts)
        except (PatchgradError, OSError, ValueError):  # as the line about it says
            return ",".join(map(str, size)), now, {}

    def attempt(self, request: Request) -> Any:
        """All of an attempt, or of one that no table has the turns after the one that is named."""
        name, after = (request.query_params.get(one, "") for one in ("id", "after"))
        found = None
        with suppress(PatchgradError, OSError, ValueError):  # what tables have is shown although the rest cannot be read
            found = self.live.shown(name, after, doing(self.run).attempts)
        if found:
            return found
        try:
            return shown.shown(self.run, name)
        except StoreError:
            if tabled(self.run, name):
                raise
            raise StoreError(f"{name} is not kept: of policies that are measured within a phase, metrics have the figures alone.") from None

    def observation(self, request: Request) -> Any:
        """The whole answer to a turn, which an attempt has the beginning of."""
        name, words = (request.query_params.get(one, "") for one in ("id", "turn"))
        number = int(words) if words.isdecimal() else 0
        whole = None
        with suppress(PatchgradError, OSError, ValueError):
            whole = self.live.observation(name, number)
        return shown.observation(self.run, name, number) if whole is None else whole


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
