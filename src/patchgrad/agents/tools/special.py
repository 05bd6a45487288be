"""What the special tools share, and those that change nothing: open, goto, scroll_down, scroll_up, search_file, submit.

They run on the host through `sandbox.read` and `sandbox.write`: a file operation, and no process but `open`'s search for a name.
Usage: paper section 3.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from patchgrad.agents.tools.arguments import number, parse
from patchgrad.agents.tools.window import (
    File,
    Missing,
    Unusable,
    View,
    answer,
    clamp,
    find,
    last,
    load,
    locate,
    reaching,
    render,
    short,
    top,
)
from patchgrad.contracts import Sandbox
from patchgrad.values import Observation, ToolState


@dataclass(frozen=True)
class Special(ABC):
    """A tool without state: where the agent stands comes in as a `ToolState` and goes out with the observation.

    Files and state alone decide what it does (`contracts.Tool`).
    """

    view: View

    name = ""
    usage = ""
    reads_only = False

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        try:
            return await self._do(arguments, sandbox, state)
        except Unusable as error:
            message = str(error) if self.view.brief else f"{error}\nUsage: {self.usage}"
            return answer(message, state, self.view, failure="bad arguments")

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        return True

    @abstractmethod
    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        """The call itself; raises `Unusable` for arguments that cannot work."""

    def _show(self, file: File, first: int, state: ToolState) -> Observation:
        return answer(render(file, first, self.view), replace(state, file=file.path, line=first), self.view)


def opened(state: ToolState) -> str:
    """The open file's path; raises `Unusable` when none is."""
    if state.file is None:
        raise Unusable("No file is open: use open FILE first.")
    return state.file


class Open(Special):
    """`open shop/cart.py 40`: the window of a file with line 40 in it; without a file, the last one again.

    `open cart.py` finds `shop/cart.py` too where no other file of the repository ends in that: a name alone is what issues and
    tracebacks tend to give, and all of it that a small policy copies without a mistake. Where there is no such file, the one is named that
    is spelled most like it.
    """

    name = "open"
    usage = "open [OPTIONS] [FILE] [LINE_NUMBER]"
    reads_only = True

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        words = list(parse(arguments, words=2).words)
        line = number(words.pop()) if words and (len(words) == 2 or (words[0].isdecimal() and state.file)) else None
        try:
            file = await find(sandbox, words[0], state) if words else await load(sandbox, opened(state))
        except Missing as missing:
            if not missing.near:
                raise
            place = " ".join(str(part) for part in (missing.near, line) if part is not None)
            raise Unusable(f"{missing} Did you mean this?\nopen {place}") from None
        if line is not None:
            first = top(file, within(line, file), self.view)
        else:
            first = clamp(file, state.line if file.path == state.file else 1, self.view)
        return self._show(file, first, state)


class Goto(Special):
    """`goto 120`: the window of the open file with line 120 in it."""

    name = "goto"
    usage = "goto [OPTIONS] LINE_NUMBER"
    reads_only = True

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        words = parse(arguments, words=1).words
        if not words:
            raise Unusable("goto needs a line number.")
        file = await load(sandbox, opened(state))
        return self._show(file, top(file, within(number(words[0]), file), self.view), state)


class ScrollDown(Special):
    """`scroll_down`: the next window, which repeats `overlap` lines."""

    name = "scroll_down"
    usage = "scroll_down [OPTIONS]"
    reads_only = True

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        parse(arguments)
        file = await load(sandbox, opened(state))
        return self._show(file, self._next(file, state.line), state)

    def _next(self, file: File, first: int) -> int:
        """The first line of the next window."""
        return clamp(file, max(first + 1, last(file, first, self.view) + 1 - self.view.overlap), self.view)


class ScrollUp(ScrollDown):
    """`scroll_up`: the window before, which repeats `overlap` lines."""

    name = "scroll_up"
    usage = "scroll_up [OPTIONS]"

    def _next(self, file: File, first: int) -> int:
        step = max(1, self.view.lines - self.view.overlap)
        seen = min(first + self.view.overlap - 1, len(file.lines))
        return min(max(1, first - 1), reaching(file, max(1, first - step), seen, self.view))


class SearchFile(Special):
    """`search_file total shop/cart.py`: the lines that hold the text as it stands, no pattern; at most 100 (SWE-agent)."""

    name = "search_file"
    usage = "search_file [OPTIONS] SEARCH_TERM [FILE]"
    reads_only = True
    most = 100

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        words = parse(arguments, words=2).words
        if not words or not words[0]:
            raise Unusable("search_file needs a text to search for.")
        file = await load(sandbox, locate(words[1], state) if len(words) == 2 else opened(state))
        hits = [(n, line.rstrip("\r")) for n, line in enumerate(file.lines, 1) if words[0] in line]
        name = short(file.path) if self.view.brief else file.path
        if not hits:
            return answer(f'No matches found for "{words[0]}" in {name}', state, self.view)
        if len(hits) > self.most:
            raise Unusable(f'More than {self.most} lines match "{words[0]}" in {name}: search for something narrower.')
        if self.view.brief:
            return answer("\n".join(f"{n}:{line}" for n, line in hits), state, self.view)
        rows = [f'Found {len(hits)} matching lines for "{words[0]}" in {name}:', *(f"Line {n}:{line}" for n, line in hits)]
        return answer("\n".join(rows), state, self.view)


class Submit(Special):
    """`submit`: the episode ends, and its difference from the repository's commit is graded (`rollouts.repository.difference`)."""

    name = "submit"
    usage = "submit [OPTIONS]"
    reads_only = True

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        parse(arguments)
        return answer("" if self.view.brief else "Submitted.", state, self.view)


def within(line: int, file: File) -> int:
    """The line itself if the file has it; raises `Unusable` otherwise."""
    if line > max(1, len(file.lines)):
        raise Unusable(f"Line {line} is past the end: {short(file.path)} has {len(file.lines)} lines.")
    return line
