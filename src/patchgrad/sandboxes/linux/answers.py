"""What a trainer makes of the answers that come from a sandbox, and how it names files there."""

from __future__ import annotations

from collections.abc import Callable

from patchgrad.contracts import Result
from patchgrad.sandboxes.linux.frames import Frame


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
