"""The special tools that write: create, edit, replace. Usage and semantics: paper section 3.3."""

from __future__ import annotations

import re
from dataclasses import replace

from patchgrad.agents.tools.arguments import Arguments, chained, number, parse
from patchgrad.agents.tools.shell import Shell
from patchgrad.agents.tools.special import Special, opened
from patchgrad.agents.tools.window import File, Unusable, clamp, last, load, locate, numbered, render, save, short, split, top
from patchgrad.agents.tools.window import answer as observation
from patchgrad.contracts import Sandbox
from patchgrad.values import Observation, ToolState

UPDATED = (
    "File updated. Please review the changes and make sure they are correct "
    "(correct indentation, no duplicate lines, etc). Edit the file again if necessary."
)


class Writer(Special):
    """A tool that changes a file. Its one-line form may go on with `&& COMMAND`, which the shell runs where the change was made.

    `replace "<" "<=" && pytest || git restore .` changes, tests and, when red, undoes in one turn. SWE-agent's tools are commands of
    its shell, where the same line does the same. The observation is the change and what the command said; when brief, the latter.
    """

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        own, then = chained(arguments)
        changed = await super().__call__(own, sandbox, state)
        if not then or changed.failure:
            return changed
        ran = await Shell(self.view)(then, sandbox, changed.tool_state)
        parts = (ran.content,) if self.view.brief else (changed.content, ran.content)
        seen = observation("\n".join(part for part in parts if part), ran.tool_state, self.view, ran.failure)
        return replace(ran, content=seen.content, clipped=changed.clipped or ran.clipped or seen.clipped)

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        _, then = chained(arguments)
        return not then or Shell(self.view).repeatable(then, observation)

    def _changed(self, file: File, start: int, end: int, state: ToolState, note: str = "") -> Observation:
        """What is shown after a change that touches lines `start` to `end` of the new file."""
        shown = state.file == file.path and state.line <= start <= last(file, state.line, self.view)
        first = clamp(file, state.line, self.view) if shown else top(file, start, self.view)
        state = replace(state, file=file.path, line=first)
        long = [UPDATED, note, render(file, first, self.view)]
        parts = [*numbered(file, start, max(start, end)), note] if self.view.brief else long
        return observation("\n".join(part for part in parts if part), state, self.view)


class Create(Writer):
    """`create tests/repro.py`: a new file of one empty line, open; refuses a path that exists."""

    name = "create"
    usage = "create [OPTIONS] FILENAME"

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        words = parse(arguments, words=1).words
        if not words:
            raise Unusable("create needs a file name.")
        path = locate(words[0], state)
        try:
            await sandbox.read(path)
        except FileNotFoundError:
            file = File(path, ("",))
        except OSError as error:
            raise Unusable(f"Cannot create {short(path)}: {error.strerror or error}.") from None
        else:
            raise Unusable(f"{short(path)} already exists.")
        await save(sandbox, file)
        return self._show(file, 1, state)


class Edit(Writer):
    """`edit 3:5 << 'EOF' ...`: lines 3 to 5, both included, become the text verbatim; no text deletes them.

    The line after the last one may be named, which appends. `edit --file shop/cart.py 7:7 "    total += x"` is the one-line form.
    """

    name = "edit"
    usage = "edit [OPTIONS] LINE_RANGE [REPLACEMENT_TEXT]  (LINE_RANGE is START:END, inclusive; OPTIONS: --file PATH)"

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        given = parse(arguments, options=("file",), words=2)
        if not given.words:
            raise Unusable("edit needs a line range such as 3:5.")
        if given.body is not None and len(given.words) == 2:
            raise Unusable("edit takes its text from a heredoc or an argument, not both.")
        span = re.fullmatch(r"([0-9]+)(?:[:-]([0-9]+))?", given.words[0])
        if span is None:
            raise Unusable(f"{given.words[0]!r} is not a line range such as 3:5.")
        start = number(span[1])
        end = number(span[2] or span[1])
        file = await load(sandbox, locate(given.options["file"], state) if "file" in given.options else opened(state))
        size = len(file.lines)
        if end < start:
            raise Unusable(f"The range {start}:{end} ends before it starts.")
        if end > max(size, 1) and not start == end == size + 1:
            raise Unusable(f"The range {start}:{end} is past the end: {short(file.path)} has {size} lines.")
        text = given.body if given.body is not None else given.words[1] if len(given.words) == 2 else ""
        new = split("", text).lines
        file = file.spliced(start, end, new)
        await save(sandbox, file)
        return self._changed(file, start, start + len(new) - 1, state)


class Replace(Writer):
    """`replace 'total = x' 'total += x'`: the first occurrence from the window on, then from the file's start.

    `replace ' <' ' <=' 2` is the second one. It says how many others remain; `--replace-all` leaves none.
    """

    name = "replace"
    usage = "replace [OPTIONS] SEARCH REPLACE [N]  (N counts occurrences from the window on; OPTIONS: --replace-all, --file PATH)"

    async def _do(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        given = parse(arguments, options=("file",), flags=("replace-all",), words=3)
        search, new, which = _asked(given)
        file = await load(sandbox, locate(given.options["file"], state) if "file" in given.options else opened(state))
        if file.lines and all(line.endswith("\r") for line in file.lines):
            search, new = (text.replace("\n", "\r\n") for text in (search, new))
        text = file.text()
        line = state.line if file.path == state.file else 1
        found = occurrences(text, search, line)
        if len(found) < which:
            what = "The text" if self.view.brief else repr(given.words[0])
            often = f"occurs {len(found)} times" if found else "does not occur"
            raise Unusable(f"{what} {often} in {short(file.path)}.")
        if "replace-all" in given.options:
            at, text = min(found), text.replace(search, new)
            note = f"Replaced {len(found)} occurrences." if len(found) > 1 else ""
        else:
            at = found[which - 1]
            text = text[:at] + new + text[at + len(search) :]
            note = self._others(len(found))
        file = split(file.path, text)
        await save(sandbox, file)
        start = text.count("\n", 0, at) + 1
        return self._changed(file, start, start + new.count("\n"), state, note)

    def _others(self, count: int) -> str:
        if count == 1:
            return ""
        return f"({count - 1} more)" if self.view.brief else f"Replaced 1 of {count} occurrences; {count - 1} remain."


def _asked(given: Arguments) -> tuple[str, str, int]:
    """What is searched for, what comes there, and at which occurrence."""
    if len(given.words) < 2:
        raise Unusable("replace needs two quoted texts: what to search for, and what to put there.")
    search, new, *which = given.words
    if not search or search == new:
        raise Unusable("The text to search for is empty." if not search else "Both texts are the same: nothing to do.")
    if which and "replace-all" in given.options:
        raise Unusable("--replace-all replaces every occurrence: leave the number away.")
    return search, new, number(which[0], "number of an occurrence") if which else 1


def occurrences(text: str, search: str, line: int) -> list[int]:
    """Where a text begins in another, none within the one before: from this line on, then from the start.

    `occurrences("a\\na a", "a", 2)` is `[2, 4, 0]`.
    """
    start = sum(len(row) + 1 for row in text.split("\n")[: line - 1])
    behind = [found.start() + start for found in re.finditer(re.escape(search), text[start:])]
    first = min(behind, default=len(text))
    return behind + [at.start() for at in re.finditer(re.escape(search), text[:first]) if at.start() < start]
