"""The file behind a window: reading, numbering, and where the window stands. No state: a `ToolState` says it all.

A file is its lines without their ends; what the last line ended with, and carriage returns, survive an edit.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import accumulate, takewhile

from patchgrad.contracts import Sandbox
from patchgrad.values import Failure, Observation, ToolState

ROOT = "/testbed"
_TAIL = re.compile(r"\w[\w.-]*(/[\w.-]+)*")


@dataclass(frozen=True, slots=True)
class View:
    """What tools show. `lines` is the window's height, `overlap` what two scrolls share, `limit` the longest observation.

    `brief` leaves out everything that repeats what the policy knows: for models of a few million parameters. Window and overlap are
    SWE-agent's by default, whose observations have up to 100,000 letters; the paper (section 3.3) does not report its own.
    """

    lines: int = 100
    overlap: int = 2
    limit: int = 16_384
    brief: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """One text file: `File("/testbed/a.py", ("x = 1",))` stands for the text `x = 1` and a line end."""

    path: str
    lines: tuple[str, ...]
    ended: bool = True

    def text(self) -> str:
        return "\n".join(self.lines) + ("\n" if self.ended and self.lines else "")

    def spliced(self, start: int, end: int, new: tuple[str, ...]) -> File:
        """Lines `start` to `end`, both included and 1-based, become `new`; a file of carriage returns gets them too."""
        if self.lines and all(line.endswith("\r") for line in self.lines):
            new = tuple(line + "\r" for line in new)
        return replace(self, lines=self.lines[: start - 1] + new + self.lines[end:])


class Unusable(Exception):
    """What a call asked for cannot be done; the sentence becomes its observation."""


class Missing(Unusable):
    """There is no such file; `near` is a path that is spelled much the same, or nothing."""

    def __init__(self, path: str, near: str = "") -> None:
        super().__init__(f"File {short(path)} not found.")
        self.near = near


def split(path: str, text: str) -> File:
    r"""Cut a text at line feeds only: a form feed is no line's end, `str.splitlines` thinks otherwise."""
    if not text:
        return File(path, ())
    ended = text.endswith("\n")
    return File(path, tuple((text[:-1] if ended else text).split("\n")), ended)


def locate(path: str, state: ToolState) -> str:
    """An absolute path: `locate("cart.py", ToolState("/testbed/shop"))` is `/testbed/shop/cart.py`; `Unusable` for no path."""
    if "\0" in path:
        raise Unusable("A path has no null byte.")
    return posixpath.normpath(posixpath.join(state.directory, path))


def short(path: str) -> str:
    """`/testbed/shop/cart.py` as `shop/cart.py`; other paths as they are."""
    return posixpath.relpath(path, ROOT) if path.startswith(ROOT + "/") else path


async def load(sandbox: Sandbox, path: str) -> File:
    """Read a text file; raises `Unusable` where there is none."""
    try:
        content = await sandbox.read(path)
    except IsADirectoryError:
        raise Unusable(f"{short(path)} is a directory.") from None
    except FileNotFoundError:
        raise Missing(path) from None
    except OSError as error:
        raise Unusable(f"Cannot read {short(path)}: {error.strerror or error}.") from None
    if b"\0" in content[:8192]:
        raise Unusable(f"{short(path)} is a binary file.")
    return split(path, content.decode("utf-8", "surrogateescape"))


async def find(sandbox: Sandbox, name: str, state: ToolState) -> File:
    """The file of that path, and where there is none the only file of the repository whose path ends so: `cart.py` is `shop/cart.py`."""
    try:
        return await load(sandbox, locate(name, state))
    except Missing:
        paths = await _listed(sandbox, f":(glob)**/{name}") if _TAIL.fullmatch(name) else []
        if len(paths) > 1:
            raise Unusable(f"{name} is several files: {', '.join(paths[:5])}.") from None
        if not paths:
            raise Missing(locate(name, state), near(name, await _listed(sandbox, "."))) from None
        return await load(sandbox, locate(paths[0], ToolState()))


async def _listed(sandbox: Sandbox, pattern: str) -> list[str]:
    """The repository's paths that a pattern of git's matches, without those that it ignores."""
    listed = await sandbox.exec(("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", pattern))
    return listed.output.splitlines() if listed.exit_code == 0 else []


def near(name: str, paths: Sequence[str]) -> str:
    """The path that is spelled most like a name, by its own name where only one has that; nothing where none is alike.

    `near("crat.py", ["shop/cart.py", "shop/tax.py"])` is `cart.py`, and `shop/cart.py` where there is a `lib/cart.py` too.
    """
    wanted = posixpath.basename(name)
    tails = Counter(posixpath.basename(path) for path in paths)
    for tail in get_close_matches(wanted, tails, 1):
        return tail if tails[tail] == 1 else get_close_matches(name, [p for p in paths if posixpath.basename(p) == tail], 1, 0.0)[0]
    return ""


async def save(sandbox: Sandbox, file: File) -> None:
    """Write a text file back; raises `Unusable` where it cannot be."""
    try:
        await sandbox.write(file.path, file.text().encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise Unusable(f"Cannot write {short(file.path)}: {error.strerror or error}.") from None


def top(file: File, line: int, view: View) -> int:
    """The window's first line so that `line` stands a sixth from its top (SWE-agent's rule), inside the file, and in sight."""
    return reaching(file, clamp(file, line - view.lines // 6, view), line, view)


def reaching(file: File, first: int, line: int, view: View) -> int:
    """The window's first line, moved down until `line` is in sight."""
    while first < line and last(file, first, view) < line:
        first += 1
    return first


def clamp(file: File, first: int, view: View) -> int:
    """The window's first line, moved so that the window is full if the file can fill it."""
    size = len(file.lines)
    return max(1, min(first, reaching(file, size - view.lines + 1, size, view)))


def last(file: File, first: int, view: View) -> int:
    """The last line of a window: whole lines that an observation has room for, at most `view.lines` of them and at least one."""
    first, size = max(1, first), len(file.lines)
    around = [] if view.brief else [_above(size), _below(size)]
    room = view.limit - len("\n".join([_head(file, view), *around]))
    rows = numbered(file, first, first + view.lines - 1)
    fitting = takewhile(lambda used: used <= room, accumulate(len(row) + 1 for row in rows))
    return first + max(1, sum(1 for _ in fitting)) - 1


def render(file: File, first: int, view: View) -> str:
    """The paper's file view (section 3.4): `[File: PATH (N lines total)]`, then `12:text` for each line of the window."""
    end, size = min(len(file.lines), last(file, first, view)), len(file.lines)
    rows = [_head(file, view), *numbered(file, first, end)]
    if not view.brief and first > 1:
        rows.insert(1, _above(first - 1))
    if not view.brief and end < size:
        rows.append(_below(size - end))
    return "\n".join(rows)


def _head(file: File, view: View) -> str:
    return f"[File: {short(file.path) if view.brief else file.path} ({len(file.lines)} lines total)]"


def _above(count: int) -> str:
    return f"({count} more lines above)"


def _below(count: int) -> str:
    return f"({count} more lines below)"


def numbered(file: File, first: int, last: int) -> list[str]:
    """Lines `first` to `last` as `7:text`, those outside the file left out."""
    first, last = max(1, first), min(last, len(file.lines))
    return [f"{number}:{file.lines[number - 1].rstrip(chr(13))}" for number in range(first, last + 1)]


def answer(content: str, state: ToolState, view: View, failure: Failure | None = None) -> Observation:
    """An observation within the limit; what is cut is said, head and tail stay, as whole lines where these are not too long.

    `abcdefgh` with a limit of 4 reads `ab`, `[... 4 characters left out ...]`, `gh`.
    """
    content = content.encode("utf-8", "replace").decode()  # a lone surrogate of a file in another encoding has no token
    clipped = len(content) > view.limit
    if clipped:
        half = view.limit // 2
        head, tail = _whole(content[: view.limit - half]), _whole(content[len(content) - half :][::-1])[::-1]
        content = f"{head}\n[... {len(content) - len(head) - len(tail)} characters left out ...]\n{tail}"
    return Observation(content, state, clipped=clipped, failure=failure)


def _whole(text: str) -> str:
    """The text without the line that is cut at its end, unless that is most of it."""
    lines, end, _ = text.rpartition("\n")
    return lines if end and 2 * len(lines) > len(text) else text
