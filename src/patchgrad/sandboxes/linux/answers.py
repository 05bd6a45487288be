"""What a trainer makes of the answers that come from a sandbox, and how it names files there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchgrad.contracts import Result
from patchgrad.sandboxes.linux import leftovers
from patchgrad.sandboxes.linux.frames import Frame
from patchgrad.sandboxes.linux.shell_state import UNKEPT
from patchgrad.values import Entries, Snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an agent's shell was after its last command, what was made of it, and which processes went on beside it."""

    directory: str = "/testbed"
    shell: str = ""
    processes: tuple[str, ...] = ()

    @classmethod
    def at(cls, state: Snapshot | None) -> Standing:
        """In a sandbox that was opened in a state, or in none."""
        return cls(state.directory, state.shell) if state else cls()

    @classmethod
    def told(cls, frame: Frame, words: Callable[[str], str] = str) -> Standing:
        """After the command that this answers."""
        header = frame[0]
        return cls(words(header["directory"]), words(header["shell"]), tuple(words(name) for name in header["processes"] if name))

    def snapshot(self, entries: Entries, files: Sequence[str]) -> Snapshot:
        """The state of a sandbox with these differences, and with these files outside of its repository."""
        large = self.shell == UNKEPT
        loose = leftovers.told(self.processes, files)
        return Snapshot.of(entries, self.directory, "" if large else self.shell, (*loose, leftovers.TOO_LARGE) if large else loose)


def result(frame: Frame, words: Callable[[str], str] = str) -> Result:
    """The result of a command; `words` puts paths into those that the agent uses."""
    header, body = frame
    text, report = body[: header["text"]], body[header["text"] :]
    return Result(
        output=words(text.decode(errors="replace")),
        exit_code=header["code"],
        state=header["state"],
        truncated=header["cut"],
        directory=words(header["directory"]),
        seconds=header["seconds"],
        cpu=header["cpu"],
        report=report,
    )


def below(path: str) -> str:
    """A path as seen from the top of a sandbox's files: `/tmp/a` -> `tmp/a`, and `a`, which is in the repository, -> `testbed/a`."""
    return path.lstrip("/") if path.startswith("/") else f"testbed/{path}"
